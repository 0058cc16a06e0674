package emutest_test

import (
	"net"
	"os"
	"testing"

	"github.com/pureverbs/pureverbs/emu/emutest"
)

// TestMain of a package whose tests need two adapters. The run fails if the code does what a real adapter would punish.
func ExampleRun() {
	var m *testing.M // the argument of TestMain
	emutest.Run(m, emutest.Devices("mlx5_0", "mlx5_1"), emutest.Strict("leak"))
}

// setUp is what TestMain does around the tests.
type setUp struct{ m *testing.M }

func (s setUp) Run() int {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("DATA", dir)
	return s.m.Run()
}

// Run exits, so whatever is to happen before and after the tests wraps m.
func ExampleRun_setUp() {
	var m *testing.M // the argument of TestMain
	emutest.Run(setUp{m})
}

// A server that listens at the address of the first adapter.
func ExampleNeed() {
	var t *testing.T // the argument of the test
	d, err := emutest.Need(t).Device("mlx5_0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(d.Addr().String(), "7471"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
}

// The registration of memory fails once.
func ExampleEmulator_Inject() {
	var t *testing.T // the argument of the test
	e := emutest.Need(t)
	if _, err := e.Inject("enomem:cmd=REG_MR,count=1"); err != nil {
		t.Fatal(err)
	}
	defer e.ClearFaults()
	// …
}
