#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checkers of tools/check, fed with trees that are wrong in one way each."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class Tree(unittest.TestCase):
    """A repository made for one test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def add(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_tool(self, tool):
        done = subprocess.run([sys.executable, TOOLS / tool, "--root", self.root],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 1 if done.stdout else 0)
        return done.stdout.strip()


class Layers(Tree):
    def add_module(self, name, deps, source="", test=""):
        deps = f" DEPS {deps}" if deps else ""
        self.add(f"src/{name}/CMakeLists.txt",
                 f"add_module({name}\n  SRCS a.cc{deps}\n  LIBS x::y  # formats\n  TESTS a_test.cc)")
        self.add(f"src/{name}/a.cc", source)
        self.add(f"src/{name}/a_test.cc", test)

    def check(self):
        return self.run_tool("check_layers.py")

    def test_accepts_what_goes_down(self):
        self.add_module("base", "")
        self.add_module("formats", "base", '#include <http/x.h>\n#include "base/b.h"\n')
        self.add_module("api", "base formats", '#include "api/a.h"\n', '#include "testing/t.h"\n')
        self.assertEqual(self.check(), "")

    def test_refuses_an_include_that_deps_do_not_name(self):
        self.add_module("base", "")
        self.add_module("s3", "base", '\n#include "formats/json.h"\n')
        self.assertIn("src/s3/a.cc:2: s3 may not include formats", self.check())

    def test_refuses_it_in_tests_and_when_it_is_not_direct(self):
        self.add_module("base", "")
        self.add_module("formats", "base")
        self.add_module("api", "formats", test='#include "base/b.h"\n')
        self.assertIn("src/api/a_test.cc:1: api may not include base", self.check())

    def test_refuses_a_dependency_upwards(self):
        self.add_module("base", "http")
        self.add_module("http", "")
        self.assertIn("base may not depend on http", self.check())

    def test_refuses_a_module_without_a_floor(self):
        self.add_module("helpers", "")
        self.assertIn("helpers is on no floor", self.check())

    def test_names_a_cycle(self):
        self.add_module("base", "formats")
        self.add_module("formats", "base")
        self.assertIn("base -> formats -> base", self.check())

    def test_keeps_internal_headers_internal(self):
        self.add_module("base", "")
        self.add_module("http", "base", '#include "http/internal/x.h"\n')
        self.add_module("store", "base http", '#include "http/internal/x.h"\n')
        self.assertEqual(self.check(), "src/store/a.cc:1: http/internal/x.h is internal to http")


def function(lines, head="void f(int a)"):
    return f"{head} {{\n" + "  g();\n" * (lines - 2) + "}\n"


class Sizes(Tree):
    def check(self, text, name="src/base/a.cc"):
        self.add(name, text)
        return self.run_tool("check_sizes.py")

    def test_accepts_what_is_at_its_limit(self):
        self.assertEqual(self.check(function(60)), "")
        self.assertEqual(self.check("//\n" * 250, "src/base/a.h"), "")
        self.assertEqual(self.check("//\n" * 600, "src/base/a_test.cc"), "")
        self.assertEqual(self.check("// " + "x" * 97 + "\n", "src/base/b.cc"), "")

    def test_refuses_files_that_are_too_long(self):
        self.assertIn("src/base/a.h:251: header: 251 lines, limit 250",
                      self.check("//\n" * 251, "src/base/a.h"))
        self.assertIn("source: 501 lines", self.check("//\n" * 501))
        self.assertIn("test: 601 lines", self.check("//\n" * 601, "src/base/a_test.cc"))

    def test_refuses_long_lines_by_characters(self):
        self.assertIn(":2: line: 101 columns", self.check("\n// " + "x" * 98 + "\n"))
        self.assertEqual(self.check("// " + "\u00e4" * 97 + "\n", "src/base/b.cc"),
                         self.check("", "src/base/c.cc"))

    def test_refuses_long_functions_wherever_they_are(self):
        for head in ("void f()", "A::A(int a) : a_{a}, b_(f(a))", "template <class T>\nT f(T t)",
                     "bool operator()(int a) const", "TEST(Suite, Name)", "auto f() -> int",
                     "bool operator<(const A& a)", "Result<std::map<int, A>> f()"):
            for place in ("{}", "namespace a {{\n{}}}\n", "class A final : public B {{\n{}}};\n",
                          "namespace {{\nstruct A {{\n public:\n{}}};\n}}\n",
                          "const A kA = {{1, 2}};\nint b{{3}};\n{}"):
                with self.subTest(head=head, place=place):
                    self.assertIn("function: 6", self.check(place.format(function(61, head))))

    def test_sees_through_strings_comments_and_macros(self):
        text = '#define M {\nconst char* a = "{"; // {\n/* { */ char b = \'{\';\n'
        text += 'auto c = R"x({{")x";\nint d = 1\'000;\n' + function(61)
        self.assertIn(":6: function: 61 lines", self.check(text))

    def test_does_not_take_data_or_lambdas_for_functions(self):
        table = "const std::vector<A> kTable = {\n" + "    {f(1), {2}},\n" * 80 + "};\n"
        self.assertEqual(self.check(table), "")
        self.assertEqual(self.check("struct A {\n" + "  int a = f(1);\n" * 80 + "};\n"), "")

    def test_refuses_many_parameters(self):
        five = "int a, std::map<int, int> b, std::function<void(int, int)> c, int d, A e = {1, 2}"
        self.assertEqual(self.check(f"void f({five}) {{}}\n"), "")
        self.assertIn("parameters: 6, limit 5", self.check(f"void f({five}, int g) {{}}\n"))
        self.assertIn("parameters: 6", self.check(
            f"class A {{\n  virtual R<int> f({five}, int g) const = 0;\n}};\n", "src/base/a.h"))

    def test_refuses_modules_of_many_files(self):
        for number in range(41):
            self.add(f"src/base/f{number}.cc", "")
            self.add(f"src/base/f{number}_test.cc", "")
        self.assertEqual(self.run_tool("check_sizes.py"), "src/base:1: module: 41 files, limit 40")

    def test_allows_an_exception_up_to_its_own_limit(self):
        self.add("tools/sizes_allowed.txt", "# why\nsrc/base/a.cc function 80 one long table\n")
        self.assertEqual(self.check(function(80)), "")
        self.assertIn("function: 81 lines, limit 80", self.check(function(81)))

    def test_refuses_an_exception_that_is_not_needed(self):
        self.add("tools/sizes_allowed.txt", "src/base/a.cc function 80 one long table\n")
        self.assertIn("src/base/a.cc function: not needed any more", self.check(function(9)))


class Headers(Tree):
    def check(self):
        return subprocess.run([sys.executable, TOOLS / "check_headers.py", "--root", self.root],
                              capture_output=True, text=True, check=False)

    def test_finds_a_header_that_needs_another_before_it(self):
        self.add("src/base/a.h", "#pragma once\nstd::size_t f();\n")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertIn("src/base/a.h:2", done.stdout)

    def test_leaves_to_the_build_what_its_source_includes_first(self):
        self.add("src/base/a.h", "#pragma once\nstd::size_t f();\n")
        self.add("src/base/a.cc", '// why\n#include "base/a.h"\n\n#include <cstddef>\n')
        self.assertEqual(self.check().returncode, 0)
        self.add("src/base/a.cc", '#include <cstddef>\n#include "base/a.h"\n')
        self.assertEqual(self.check().returncode, 1)

    def test_looks_again_when_something_included_changes(self):
        self.add("src/base/a.h", "#pragma once\n#include \"base/b.h\"\nB f();\n")
        self.add("src/base/b.h", "#pragma once\nstruct B {};\n")
        self.assertEqual(self.check().returncode, 0)
        self.assertEqual(self.check().returncode, 0)
        self.add("src/base/b.h", "#pragma once\nstruct C {};\n")
        self.assertEqual(self.check().returncode, 1)


class Docs(Tree):
    def check(self):
        return subprocess.run([sys.executable, TOOLS / "check_docs.py", self.root],
                              capture_output=True, text=True, check=False)

    def test_finds_a_page_that_names_a_file_which_is_gone(self):
        self.add("README.md", "start in `src/a/b.cc`, then `src/a/gone.cc`\n")
        self.add("src/a/b.cc", "")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "README.md:1: no such file: src/a/gone.cc\n")

    def test_finds_commands_that_are_not_there(self):
        self.add("yard", "main() {\n  case $verb in\n    up) up ;;\n  esac\n}\n# --tls\n")
        self.add("src/cli/program.cc", '    {"list", "", "Show"},\n')
        self.add("src/cli/options.cc", '"--limit,-n"')
        right = "of `./yard up --tls`\n```\ntrainyard list --limit 3 # a --list\n```\nwhat trainyard does\n"
        self.add("README.md", right)
        self.assertEqual(self.check().stdout, "docs: every file, command and test that they name exists\n")
        self.add("README.md", right + "`./yard fly`\n`./yard up --tl`\n```\ntrainyard show | trainyard list --lim\n")
        self.assertEqual(self.check().stdout.splitlines(), [
            "README.md:6: no such verb: ./yard fly", "README.md:7: no such flag: ./yard up --tl",
            "README.md:9: no such verb: trainyard show", "README.md:9: no such flag: trainyard list --lim"])

    def test_wants_a_test_that_is_there_for_each_threat(self):
        self.add("README.md", "")
        self.add("tests/e2e/a_test.py", "def test_one(x):\n")
        self.add("src/a/b_test.cc", "TEST_P(Bad, IsRefused) {\n")
        page = "| threat | tests |\n|---|---|\n| x | `tests/e2e/a_test.py::test_one`, `src/a/b_test.cc::Bad.IsRefused` |\n"
        self.add("docs/security.md", page + "\n| target | reads |\n|---|---|\n| y | z |\n")
        self.assertEqual(self.check().returncode, 0)
        self.add("docs/security.md", page + "| y | none |\n| z | `tests/e2e/a_test.py::test_on` |\n")
        done = self.check()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "docs/security.md:4: no test is named for this threat\n"
                                      "docs/security.md:5: no such test: tests/e2e/a_test.py::test_on\n")

    def test_wants_each_operation_and_fuzz_target_on_its_page(self):
        self.add("README.md", "")
        self.add("src/api/model/aws_model.json", '{"services": {"sts": {"operations": {"GetMe": {}, "PutMe": {}}}}}')
        self.add("testing/fuzz/target_xml.cc", "")
        self.add("docs/api.md", "| service | operations |\n|---|---|\n| `sts` | GetMe, PutMe |\n")
        self.add("docs/security.md", "| target | reads |\n|---|---|\n| `xml` | bodies |\n\n`json` is no row\n")
        self.assertEqual(self.check().returncode, 0)
        self.add("docs/api.md", "| service | operations |\n|---|---|\n| `sts` | GetMe, ListMe |\n| `iam` | GetRole |\n")
        self.add("docs/security.md", "| target | reads |\n|---|---|\n| `json` | bodies |\n")
        self.assertEqual(self.check().stdout.splitlines(), [
            "docs/api.md: iam: served or named, not both: GetRole",
            "docs/api.md: sts: served or named, not both: ListMe, PutMe",
            "docs/security.md: fuzz targets that are there or named, not both: json, xml"])


if __name__ == "__main__":
    unittest.main()
