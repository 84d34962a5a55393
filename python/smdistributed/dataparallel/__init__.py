# SPDX-License-Identifier: Apache-2.0
"""SageMaker's data parallel library, on Trainyard's collectives."""
