//go:build linux && amd64 && !race

package native

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/emu/emutest"
	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// site is the emulator below which this process runs.
type site struct {
	*emutest.Emulator
	kept emutest.Stats // of what stays open
	own  resources
}

// resources are what this process has of devices.
type resources struct{ files, mappings int }

func opened() resources {
	files, _ := os.ReadDir("/proc/self/fd")
	maps, _ := os.ReadFile("/proc/self/maps")
	return resources{len(files), strings.Count(string(maps), "emu-uverbs")}
}

// warm runs the program until it leaves the same each time: rdma_cm's device, which stays open, and its registers.
func warm() (*site, error) {
	emu, err := emutest.Connect()
	if err != nil {
		return nil, err
	}
	s := &site{Emulator: emu}
	if _, _, err = rdmacm.Devices(); err != nil { // not released
		return nil, err
	}
	for same := 0; same < 3; same++ {
		(&work{wait: testutil.Patience}).all()
		var now emutest.Stats
		await(func() bool { now, err = emu.Stats(); return err == nil && now.Contexts == 1 })
		if now.Objects != s.kept.Objects || opened() != s.own {
			same = 0
		}
		s.kept, s.own = now, opened()
	}
	return s, err
}

// again runs the program twice, the second time with a trace.
func again() {
	emu, err := emutest.Connect()
	if err == nil {
		err = emu.SetTrace(false)
	}
	if err == nil {
		_, err = warm()
	}
	if err == nil {
		err = emu.SetTrace(true)
	}
	if err != nil {
		wrong("%v", err)
		return
	}
	once()
	if err := emu.SetTrace(false); err != nil {
		wrong("%v", err)
	}
}

// await waits until something is so, and reports whether it is.
func await(is func() bool) bool {
	for end := time.Now().Add(testutil.Patience / 10); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// faults runs the program with each fault of the standard input.
func faults() {
	s, err := warm()
	if err != nil {
		wrong("%v", err)
		return
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		spec := in.Text()
		fmt.Println("run:", spec)
		if _, err := s.Inject(spec); err != nil {
			wrong("%v", err)
			return
		}
		w := &work{wait: brief, well: s.well}
		w.all()
		list, err := s.Faults()
		if err == nil && list[0].Fired == 0 {
			wrong("%s: it never happened", spec)
		}
		if err := errors.Join(err, s.ClearFaults(), s.SetPort(device, 1, true),
			s.SetGID(device, 1, 200, netip.Addr{})); err != nil {
			wrong("%s: %v", spec, err)
		}
		w.check(spec)
		s.settle(spec)
	}
}

// brief is how long the program waits for what need not come.
const brief = 200 * time.Millisecond

// well reports whether the faults have not happened yet.
func (s *site) well() bool {
	list, err := s.Faults()
	for _, f := range list {
		if f.Fired > 0 {
			return false
		}
	}
	return err == nil
}

// check prints the errors that have no type, and the objects that could not be closed.
func (w *work) check(what string) {
	for _, err := range w.errs {
		if !typed(err) {
			wrong("%s: an error without a type: %v", what, err)
		}
	}
	for _, l := range w.left {
		wrong("%s: %s cannot be closed: %v", what, l.name, w.errs)
	}
}

// typed reports whether a program can tell one error from others.
func typed(err error) bool {
	var e syscall.Errno
	var c *ibv.WCError
	return errors.As(err, &e) || errors.As(err, &c) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, ibv.ErrNotSupported) || errors.Is(err, errWrong)
}

// settle waits until the emulator has released what the program had. An object may be left, of rdma_cm's device, if the
// kernel has given another number for it, and a descriptor, which nobody can close.
func (s *site) settle(what string) {
	lost := false
	for _, word := range []string{"alloc", "create", "reg_"} {
		lost = lost || strings.HasPrefix(what, "reply=") && strings.Contains(what, word)
	}
	var now emutest.Stats
	var own resources
	if !await(func() (ok bool) {
		n, err := s.Stats()
		now, own = n, opened()
		if lost {
			return err == nil && now.Contexts == s.kept.Contexts && now.Objects >= s.kept.Objects &&
				own.files >= s.own.files && own.mappings >= s.own.mappings
		}
		return err == nil && now.Contexts == s.kept.Contexts && now.Objects == s.kept.Objects && own == s.own
	}) {
		wrong("%s: %d contexts and %d objects are left, and %+v; want %d, %d and %+v", what, now.Contexts, now.Objects,
			own, s.kept.Contexts, s.kept.Objects, s.own)
	}
	s.kept, s.own = now, own
}
