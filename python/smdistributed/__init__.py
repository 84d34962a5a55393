# SPDX-License-Identifier: Apache-2.0
"""SageMaker's distributed training libraries, by their import names."""
