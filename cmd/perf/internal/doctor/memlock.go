package doctor

import (
	"errors"
	"syscall"

	"github.com/pureverbs/pureverbs/hostfacts"
)

// wantLocked is enough for a small run: below it registration of buffers of 8 MiB fails.
const wantLocked = 64 << 20

// memlock checks the limit of memory that may be registered. The kernel asks only processes without CAP_IPC_LOCK.
func (x *examination) memlock() {
	m := x.Facts.Memlock()
	limit := m.Limit
	f := Finding{Subject: "host", Check: "memlock",
		Evidence: x.Facts.ProcPath("self", "limits") + ": Max locked memory " + m.Text}
	var own error // the emulator's, which obeys a limit of its own alone
	if x.emulated != "" {
		if own = x.Register(x.emulated, wantLocked); !errors.Is(own, syscall.ENOMEM) {
			return // what else prevents it, other checks report
		}
	}
	switch {
	case own != nil && m.Allows(wantLocked):
		f.is(Warning, "ulimit -l unlimited", "%d MiB of memory cannot be registered", wantLocked>>20)
		f.Evidence = own.Error()
	case !m.Known:
		return
	case limit == hostfacts.NoLimit:
		f.Text = "no limit for registered memory"
	case m.Capable:
		f.Text = "CAP_IPC_LOCK: the limit does not apply to this process"
		f.Evidence += "; CapEff in " + x.Facts.ProcPath("self", "status")
	case limit < wantLocked:
		f.is(Warning, "ulimit -l unlimited    # for good: '* - memlock unlimited' in "+
			"/etc/security/limits.d/rdma.conf, LimitMEMLOCK=infinity in a unit",
			"at most %d KiB of memory may be registered", limit>>10)
		if limit <= 64<<10 {
			f.Severity = Error
		}
		if x.Container != "" {
			f.Remedy = "start the container with --ulimit memlock=-1 or --cap-add=IPC_LOCK"
		}
		if m.UserNamespace {
			f.Evidence += "; " + x.Facts.ProcPath("self", "uid_map") +
				": a user namespace, whose CAP_IPC_LOCK does not count"
			f.Remedy = "ulimit -l unlimited    # before the user namespace is made; LimitMEMLOCK=infinity in a unit"
			if x.Container != "" {
				f.Remedy = "start the container with --ulimit memlock=-1, by a user whose limit permits it"
			}
		}
	default:
		f.is(Note, "ulimit -l unlimited", "at most %d MiB of memory may be registered", limit>>20)
	}
	x.add(f)
}
