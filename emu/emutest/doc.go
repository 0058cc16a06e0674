// Package emutest runs the tests of a package on emulated ConnectX adapters, so that code that uses RDMA is tested
// on a machine without one. The code under test loads its own libibverbs, libmlx5 and librdmacm and drives the
// emulated adapters with them; it may use any RDMA binding, or C. No emulator has to be installed.
//
//	func TestMain(m *testing.M) { emutest.Run(m) }
//
//	func TestServer(t *testing.T) {
//		emutest.Need(t)
//		l, err := rdma.Listen(t.Context(), "10.88.0.1:7471", nil)
//		…
//	}
//
// # Adapters
//
// Without options there is one adapter, mlx5_0, whose port is the interface emu0 with address 10.88.0.1.
// [Devices] replaces it. [Strict] makes the run fail if the code does something that a real adapter would punish.
// [Fault] injects faults, and [Trace] prints what the code does to the adapter. [Emulator], which [Need] returns,
// changes the adapters while a test runs: it takes a port down or injects a fault.
//
//   - [Run] takes each [Option]: [Devices], [Strict], [Fault], [Trace], [TraceJSON], [Limits], [Memlock],
//     [HostNetwork], [Require].
//   - [Need] and [Connect] return an [Emulator]. It reports on each [Device], its [Port] and [GID], [Stats], [Paging],
//     each [ActiveFault] and each [Violation].
//
// # Requirements
//
// The emulator runs on Linux 5.19 or later, on amd64 and arm64, as root or as a user who may create user namespaces.
// On any other machine the package still builds. There [Run] runs the tests without the emulator, and each test that
// calls [Need] is skipped with the reason. In CI set EMUTEST_REQUIRE=1: then [Run] fails instead.
//
// # Processes
//
// Run starts the test binary a second time, with the same arguments, below the emulator. The first process is the
// emulator; the second one runs the tests. So what package initialization and TestMain do before Run happens in both.
// Flags of go test, the exit code, coverage, signals and time limits apply to the second process.
//
// The tests run in a network namespace that contains only the adapters' interfaces and lo.
// [HostNetwork] keeps the network of the machine. They run with no_new_privs and cannot use setuid programs.
//
// # Cached results
//
// The command go test caches results, as for other packages. A test that calls [Need] reads EMU_CONTROL, to which each
// emulator gives its own value. So the results of a run below emu (emu -- go test) and of a run without it are not
// printed for each other. In a package without a call of Need they may be.
//
// A cached result is printed even if the machine has changed since. Use go test -count=1 after you have enabled the
// emulator on a machine that skipped the tests, and in CI, in addition to EMUTEST_REQUIRE=1.
package emutest
