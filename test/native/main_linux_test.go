//go:build linux && amd64 && !race

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// roleEnv names what this binary does below the emulator, in place of tests.
const roleEnv = "PUREVERBS_TEST_NATIVE_ROLE"

// seenEnv makes the role once print the completions of its work requests.
const seenEnv = "PUREVERBS_TEST_NATIVE_SEEN"

// lacksEnv makes the role once take what the kernel does not have.
const lacksEnv = "PUREVERBS_TEST_NATIVE_LACKS"

// roles are what it may do. Each prints what is wrong.
var roles = map[string]func(){
	"once":   once,
	"again":  again,
	"list":   list,
	"faults": faults,
	"alone":  alone,
	"fresh":  fresh,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles[role]()
		return
	}
	os.Exit(m.Run())
}

// emulator is a run of this binary below the emulator.
type emulator struct {
	role    string
	control ibv.ControlPath
	flags   []string
	env     []string
	input   string
	abi     string // the forms of commands that the kernel has: all of them if it is empty
}

// full is 1 in a full run, which takes longer.
var full = map[bool]time.Duration{true: 1}[testutil.Full()]

// run runs it and returns what it printed.
func (e emulator) run(t *testing.T) string {
	t.Helper()
	testutil.NeedEmu(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	emu, err := filepath.Abs("../../.build/bin/emu")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), (1+9*full)*testutil.Patience)
	defer cancel()
	dev := device + ",dmabuf=memfd"
	if e.abi != "" {
		dev += ",abi=" + e.abi
	}
	c := exec.CommandContext(ctx, emu, append(append([]string{"--device", dev}, e.flags...),
		"--", self)...)
	c.Env = append(append(os.Environ(), roleEnv+"="+e.role, ibv.ControlEnv+"="+strings.ToLower(e.control.String()),
		ibv.DataPathEnv+"=direct", "PATH="+filepath.Dir(emu)+":"+os.Getenv("PATH")), e.env...)
	c.Stdin = strings.NewReader(e.input)
	c.WaitDelay = time.Second
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	out, err := c.CombinedOutput()
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, errors.New("it hung"))
		}
		t.Errorf("%s: %v\n%s", e.role, err, out)
	}
	return string(out)
}

// wrong prints what is wrong, and makes the process fail.
func wrong(format string, a ...any) {
	fmt.Printf("wrong: "+format+"\n", a...)
}

// once runs the program once, in which nothing may fail.
func once() {
	w := &work{wait: testutil.Patience}
	w.all()
	for _, err := range w.errs {
		if os.Getenv(lacksEnv) != "" && errors.Is(err, ibv.ErrNotSupported) {
			continue
		}
		wrong("%v", err)
	}
	if os.Getenv(seenEnv) != "" {
		for _, wc := range w.seen {
			wc.Timestamp = 0
			fmt.Printf("seen: %+v\n", wc)
		}
	}
}
