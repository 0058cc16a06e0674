package foreign

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
)

// TestCall has functions end in each way.
func TestCall(t *testing.T) {
	var got []bool
	after := func(returned bool) { got = append(got, returned) }
	Call(func() {}, after)
	Call(func() {}, nil)
	func() {
		defer func() {
			if r := recover(); r != "mine" {
				t.Errorf("recovered %v", r)
			}
		}()
		Call(func() { panic("mine") }, after)
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		Call(runtime.Goexit, after)
		t.Error("goes on after runtime.Goexit")
	}()
	<-done
	if want := []bool{true, false, false}; !slices.Equal(got, want) {
		t.Errorf("after got %v, want %v", got, want)
	}
}

func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Calls
		over := make(chan struct{})
		close(over)
		never := make(chan struct{})
		if err := c.Wait(nil, func() {}); err != nil {
			t.Error(err)
		}
		if err := c.Wait(nil, runtime.Goexit); err != ErrExited {
			t.Error(err)
		}
		for range Most {
			if err := c.Wait(over, func() { <-never }); err != ErrLeft {
				t.Fatal(err)
			}
		}
		if err := c.Wait(nil, func() { t.Error("it is called") }); err != ErrStuck {
			t.Error(err)
		}
		close(never)
		synctest.Wait()
		if err := c.Wait(nil, func() {}); err != nil || c.n.Load() != 0 {
			t.Errorf("when all have returned: %v, %d", err, c.n.Load())
		}
	})
}

// TestCalls_Panic: a panic ends the program with its own trace, and nothing delays it.
func TestCalls_Panic(t *testing.T) {
	if os.Getenv("FOREIGN_PANIC") != "" {
		var c Calls
		_ = c.Wait(nil, func() { panic("the program's own") })
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCalls_Panic$")
	cmd.Env = append(os.Environ(), "FOREIGN_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("panic: the program's own")) ||
		!bytes.Contains(out, []byte("TestCalls_Panic.func1")) {
		t.Errorf("%v\n%s", err, out)
	}
}
