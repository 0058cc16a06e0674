# Runs rdma-core's tests in /opt/tests, those named by the arguments or all, and prints a line for each that ended.
import multiprocessing
import os
import sys
import tempfile
import unittest
from importlib.machinery import SourceFileLoader

names, sys.argv = sys.argv[1:], ["tests", "--dev", "mlx5_0", "--gid", os.environ["SUITE_GID"]]
multiprocessing.set_start_method("fork")  # what the tests were written for
sys.path.insert(0, "/opt/tests")
from args_parser import parser

# What devlink, whose netlink family is not emulated, would say of an adapter in legacy mode with RoCE.
tools = tempfile.TemporaryDirectory()
with open(tools.name + "/devlink", "w") as f:
    f.write("""#!/bin/sh
case "$*" in
"dev eswitch show "*) echo "$4: mode legacy inline-mode none encap-mode basic" ;;
"dev param show "*" name enable_roce") echo "    cmode driverinit value true" ;;
*) exit 1 ;;
esac
""")
    os.chmod(f.fileno(), 0o755)
os.environ["PATH"] = tools.name + ":" + os.environ["PATH"]

tests = SourceFileLoader("tests", "/opt/tests/__init__.py").load_module()
parser.parse_args()


class Result(unittest.TestResult):
    def tell(self, status, test, why=""):
        lines = [line.strip() for line in str(why).split("\n") if line.strip()]
        print("\nSUITE", status, test.id(), lines[-1] if lines else "", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.tell("run", test)

    def addSuccess(self, test):
        self.tell("ok", test)

    def addSkip(self, test, reason):
        self.tell("skipped", test, reason)

    def addFailure(self, test, err):
        self.tell("failed", test, self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.tell("error", test, self._exc_info_to_string(err, test))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addError(test, err)


load = unittest.defaultTestLoader
suite = load.loadTestsFromNames(names, tests) if names else load.loadTestsFromModule(tests)
suite.run(Result())
print("\nSUITE end", flush=True)
