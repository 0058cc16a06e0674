package examples

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXEAsyncwatch takes the link down and up, and adds an address.
func TestRXEAsyncwatch(t *testing.T) {
	rxe := testutil.NeedRXE(t)
	dev := rxe.Dev[1]
	if !rxe.Emulated {
		mend := testutil.NeedProgram(t, "rdma-net")
		t.Cleanup(func() {
			if out, err := exec.Command(mend).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", mend, err, out)
			}
		})
	}

	all := launch(t, "asyncwatch")
	one := launch(t, "asyncwatch", "-d", dev, "-n", "1", "-t", patience.String())
	all.sees("watching")
	all.sees("watching") // the second device
	one.sees("watching " + dev)

	rxe.SetLink(t, 1, false)
	if line := all.sees("PortErr on " + dev + " port 1: "); !strings.Contains(line, "lost its link") {
		t.Errorf("not explained: %s", line)
	}
	one.succeeds() // after one event
	if !strings.Contains(one.out.String(), " on "+dev) || strings.Contains(one.out.String(), rxe.Dev[0]) {
		t.Errorf("%v", one)
	}
	rxe.SetLink(t, 1, true)
	all.sees("PortActive on " + dev + " port 1: ")
	rxe.ChangeGIDs(t, 1, true)
	all.sees("GIDChange on " + dev + " port 1: ")
	rxe.ChangeGIDs(t, 1, false)

	all.cmd.Process.Signal(syscall.SIGINT)
	all.succeeds()
	if all.errs.Len() > 0 {
		t.Errorf("%v", all)
	}
}

func TestRXEAsyncwatch_NothingHappens(t *testing.T) {
	rxe := testutil.NeedLogic(t)
	launch(t, "asyncwatch", "-d", rxe.Dev[0], "-n", "1", "-t", "100ms").fails("0 of 1 events in 100ms")
	launch(t, "asyncwatch", "-d", rxe.Dev[0], "-t", "100ms").succeeds()
	launch(t, "asyncwatch", "-d", "rxe9").fails("rxe9")
}
