//go:build linux && (amd64 || arm64)

package machine

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/cm"
	"github.com/pureverbs/pureverbs/emu/internal/config"
	"github.com/pureverbs/pureverbs/emu/internal/control"
	"github.com/pureverbs/pureverbs/emu/internal/engine"
	"github.com/pureverbs/pureverbs/emu/internal/fault"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/nldev"
	"github.com/pureverbs/pureverbs/emu/internal/notify"
	"github.com/pureverbs/pureverbs/emu/internal/strict"
	"github.com/pureverbs/pureverbs/emu/internal/sysfs"
	"github.com/pureverbs/pureverbs/emu/internal/trace"
	"github.com/pureverbs/pureverbs/emu/internal/umad"
	"github.com/pureverbs/pureverbs/emu/internal/verbs"
)

// Networks are the values of [Options.Network].
var Networks = []string{"auto", "own", "host"}

// Options says what to run on which machine.
type Options struct {
	Config  *config.Config
	Argv    []string
	Report  *strict.Report // nil without strict mode
	Faults  *fault.Set
	Trace   *trace.Trace // nil without a trace
	Control string       // a further address of the control socket; "" for none
	Network string       // one of Networks
	Links   []string     // kinds of interfaces, the preferred one first
}

// Configure returns the machine with devices, the default ones if there are none, and their limits. memlock bounds the
// bytes that a process may register, unless it is 0.
func Configure(devices, limits []string, memlock uint64) (*config.Config, error) {
	c := config.Default()
	if len(devices) > 0 {
		var err error
		if c, err = config.Parse(devices); err != nil {
			return nil, err
		}
	}
	c.MemlockLimit = memlock
	for _, l := range limits {
		if err := c.SetLimit(l); err != nil {
			return nil, err
		}
	}
	return c, c.Validate()
}

// Session is a program that runs on the emulated machine.
type Session struct {
	m     *machine
	verbs *verbs.Server
	run   *notify.Session
	close []func()
}

// Start starts the program. Its error means that the program has not begun. Problems of the emulator itself are
// reported to stderr.
func Start(o *Options, stderr io.Writer) (*Session, error) {
	s := new(Session)
	if err := s.start(o, stderr); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (s *Session) start(o *Options, stderr io.Writer) error {
	nw, err := newNetwork(o)
	if err != nil {
		return err
	}
	s.close = append(s.close, nw.close)
	o.Config.Fix()
	tree, err := sysfs.New(o.Config)
	if err != nil {
		// Under another emulator, the machine has its devices.
		if missing := notify.Probe(); missing != nil {
			err = missing
		}
		return err
	}
	s.close = append(s.close, func() { tree.Close() })
	fabric := hca.New(o.Config)
	eng := engine.New(fabric, engine.Config{Strict: o.Report != nil})
	m := &machine{tree: tree, links: nw.links, ifaces: map[string]*iface{}, fabric: fabric, eng: eng, faults: o.Faults,
		report: o.Report, trace: o.Trace}
	ctl := control.New(m.control)
	s.close = append(s.close, func() { ctl.Close() })
	if err := nw.listen(ctl, o.Control); err != nil {
		return err
	}
	fabric.SetEngine(m.eng)
	f := &files{tree: tree, verbs: verbs.New(fabric), cm: cm.New(fabric), umad: umad.New(fabric), opens: m.opens,
		calls: &m.calls,
		creds: new(guest.Credentials)}
	f.verbs.Creds, f.cm.Creds = f.creds, f.creds
	f.netlink = &rdmaNetlink{server: nldev.Server{Fabric: fabric, CM: f.cm}, fresh: m.fresh}
	nw.routes(f.cm)
	m.watch(f.verbs, f.cm)
	tree.OnCounters = m.counters
	if nw.net != nil {
		if err := m.listen(nw.net.Watch); err != nil {
			return err
		}
	}
	go m.eng.Run()
	s.close = append(s.close, m.eng.Stop)
	s.m, s.verbs = m, f.verbs
	s.run, err = notify.Start(notify.Config{
		Argv:    o.Argv,
		Net:     nw.net,
		Scratch: tree.Root(),
		Env:     append(os.Environ(), control.Env+"="+ctl.Address()),
		IoctlCmds: []uint32{verbsIoctl, umad.RegisterAgent, umad.UnregisterAgent, umad.EnablePKey,
			umad.RegisterAgent2},
		TrapNetlink: []int{unix.NETLINK_RDMA},
		Forward:     []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM},
		OnPanic: func(_ *notify.Call, v any, stack []byte) {
			fmt.Fprintf(stderr, "emu: internal error: %v\n%s", v, stack)
		},
	}, f.handle)
	return err
}

// Wait waits until the program and all its descendants have ended. It returns the program's exit code, and
// [strict.ExitCode] for 0 if strict mode has found something.
func (s *Session) Wait() (int, error) {
	defer s.end()
	code, err := s.run.Wait()
	if err != nil {
		return code, err
	}
	// Files whose last user has just ended are still to be released.
	s.verbs.Settle()
	return s.m.finish(code)
}

func (s *Session) end() {
	for i := len(s.close) - 1; i >= 0; i-- {
		s.close[i]()
	}
	s.close = nil
}

// verbsIoctl is RDMA_VERBS_IOCTL.
const verbsIoctl = 0xc0181b01
