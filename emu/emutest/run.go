package emutest

import (
	"fmt"
	"os"
	"testing"
)

// RequireEnv is the environment variable that makes [Run] fail if the machine cannot emulate adapters. Any value but
// the empty one counts.
const RequireEnv = "EMUTEST_REQUIRE"

// An Option changes what [Run] emulates. The options correspond to flags of the program emu, and their arguments have
// the same syntax; emu --help describes it.
type Option func(*options)

type options struct {
	devices, limits []string
	memlock         uint64
	strict          bool
	ignore          []string
	faults          []string
	trace           string
	json            bool
	network         string
	require         bool
}

// Devices emulates these adapters instead of the default one. A spec is a name, followed by settings if any, such as
// "mlx5_1,model=cx6dx,link=ib,ports=2".
func Devices(specs ...string) Option {
	return func(o *options) { o.devices = append(o.devices, specs...) }
}

// Limits sets limits of the adapters, such as "max_qp=64", or "mlx5_1:max_qp=64" for one of them.
func Limits(specs ...string) Option {
	return func(o *options) { o.limits = append(o.limits, specs...) }
}

// Memlock limits how many bytes a process may register, as RLIMIT_MEMLOCK does.
func Memlock(bytes uint64) Option { return func(o *options) { o.memlock = bytes } }

// Strict reports what a real adapter would punish. If there is anything to report and all tests have passed, the test
// binary exits with status 99. Strict mode does not report the rules in ignore; emu --list-rules lists the rules.
func Strict(ignore ...string) Option {
	return func(o *options) { o.strict, o.ignore = true, append(o.ignore, ignore...) }
}

// Fault injects faults from the start, such as "rnr:after=100,count=3". [Emulator.Inject] does so during a test.
func Fault(specs ...string) Option {
	return func(o *options) { o.faults = append(o.faults, specs...) }
}

// Trace prints each command, work request, doorbell, completion and event as one line to a file, or to standard error
// if the file is "-".
func Trace(file string) Option { return func(o *options) { o.trace = file } }

// TraceJSON is like [Trace] and prints lines of JSON.
func TraceJSON(file string) Option { return func(o *options) { o.trace, o.json = file, true } }

// HostNetwork runs the tests in the network of the machine. Then the adapters have no interfaces. RDMA accepts their
// addresses, 127.0.0.1 and the addresses of the machine; TCP only the latter two. It does not need a network namespace.
func HostNetwork() Option { return func(o *options) { o.network = "host" } }

// Require makes [Run] fail if the machine cannot emulate adapters, as the environment variable [RequireEnv] does.
func Require() Option { return func(o *options) { o.require = true } }

// unavailable is why Run could not emulate; ran reports whether it was called.
var (
	unavailable error
	ran         bool
)

// Run runs the tests on emulated adapters and exits with their status. It does not return. TestMain calls it first;
// m is the *testing.M, or whatever wraps its method Run.
//
// If the tests already run below an emulator (emu -- go test), Run uses that one and ignores the options. If the
// machine cannot emulate adapters, Run prints why and runs the tests without; [Need] skips those that need adapters.
// A mistake in an option ends the run with status 2.
func Run(m interface{ Run() int }, opts ...Option) {
	ran = true
	o := options{network: "own", require: os.Getenv(RequireEnv) != ""}
	for _, f := range opts {
		f(&o)
	}
	if _, err := Connect(); err == nil {
		os.Exit(m.Run())
	}
	code, err := emulate(&o)
	switch {
	case err == nil:
	case !isUnavailable(err):
		fmt.Fprintln(os.Stderr, "emutest:", err)
		if code == 0 {
			code = 2
		}
	case o.require:
		fmt.Fprintln(os.Stderr, "emutest: cannot emulate adapters, which this run requires:", err)
		code = 2
	default:
		fmt.Fprintln(os.Stderr, "emutest: tests that need emulated adapters are skipped:", err)
		unavailable = err
		code = m.Run()
	}
	os.Exit(code)
}

// unavailableError is the reason why this machine cannot emulate adapters.
type unavailableError struct{ error }

func (e unavailableError) Unwrap() error { return e.error }

func isUnavailable(err error) bool {
	_, ok := err.(unavailableError)
	return ok
}

// Need returns the emulator that the test runs on. It skips the test if the machine cannot emulate adapters, and fails
// it if TestMain did not call [Run].
func Need(t testing.TB) *Emulator {
	t.Helper()
	e, err := Connect()
	switch {
	case err == nil:
		return e
	case unavailable != nil && os.Getenv(RequireEnv) != "": // read here too: go test caches results by it
		t.Fatal("emutest: no emulated adapters: ", unavailable)
	case unavailable != nil:
		t.Skip("emutest: no emulated adapters: ", unavailable)
	case !ran:
		t.Fatal("emutest: no emulator: call emutest.Run(m) in TestMain, or run the tests below emu")
	default:
		t.Fatal("emutest: ", err)
	}
	return nil
}
