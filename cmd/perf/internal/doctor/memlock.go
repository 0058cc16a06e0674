package doctor

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

const (
	// wantLocked is enough for a small run: below it registration of buffers of 8 MiB fails.
	wantLocked = 64 << 20
	capIPCLock = 14
)

// memlock checks the limit of memory that may be registered. The kernel asks only processes without CAP_IPC_LOCK.
func (x *examination) memlock() {
	limit, text := x.limit("Max locked memory")
	f := Finding{Subject: "host", Check: "memlock", Evidence: x.Proc + "/self/limits: Max locked memory " + text}
	var own error // the emulator's, which obeys a limit of its own alone
	if x.emulated != "" {
		if own = x.Register(x.emulated, wantLocked); !errors.Is(own, syscall.ENOMEM) {
			return // what else prevents it, other checks report
		}
	}
	switch {
	case own != nil && (limit == 0 || limit >= wantLocked || x.mayLock()):
		f.Severity, f.Text = Warning, fmt.Sprintf("%d MiB of memory cannot be registered", wantLocked>>20)
		f.Evidence, f.Remedy = own.Error(), "ulimit -l unlimited"
	case text == "":
		return
	case limit == 0:
		f.Text = "no limit for registered memory"
	case x.mayLock():
		f.Text = "CAP_IPC_LOCK: the limit does not apply to this process"
		f.Evidence += "; CapEff in " + x.Proc + "/self/status"
	case limit < wantLocked:
		f.Severity = Warning
		if limit <= 64<<10 {
			f.Severity = Error
		}
		f.Text = fmt.Sprintf("at most %d KiB of memory may be registered", limit>>10)
		f.Remedy = "ulimit -l unlimited    # for good: '* - memlock unlimited' in /etc/security/limits.d/rdma.conf, " +
			"LimitMEMLOCK=infinity in a unit"
		if x.Container != "" {
			f.Remedy = "start the container with --ulimit memlock=-1 or --cap-add=IPC_LOCK"
		}
		if !x.firstUsers() {
			f.Evidence += "; " + x.Proc + "/self/uid_map: a user namespace, whose CAP_IPC_LOCK does not count"
			f.Remedy = "ulimit -l unlimited    # before the user namespace is made; LimitMEMLOCK=infinity in a unit"
			if x.Container != "" {
				f.Remedy = "start the container with --ulimit memlock=-1, by a user whose limit permits it"
			}
		}
	default:
		f.Severity = Note
		f.Text = fmt.Sprintf("at most %d MiB of memory may be registered", limit>>20)
		f.Remedy = "ulimit -l unlimited"
	}
	x.add(f)
}

// limit returns a soft limit in bytes, 0 for unlimited, and its text.
func (x *examination) limit(name string) (uint64, string) {
	for line := range strings.Lines(x.file("self/limits")) {
		rest, ok := strings.CutPrefix(line, name)
		if w := strings.Fields(rest); ok && len(w) > 0 {
			n, _ := strconv.ParseUint(w[0], 10, 64)
			if n == 0 && w[0] == "0" {
				n = 1 // nothing at all, which is not unlimited
			}
			return n, w[0]
		}
	}
	return 0, ""
}

// firstUsers reports whether the process is in the first user namespace.
func (x *examination) firstUsers() bool {
	m := strings.Fields(x.text("self/uid_map"))
	return len(m) == 3 && m[0] == "0" && m[1] == "0" && m[2] == "4294967295"
}

// mayLock reports whether the process has CAP_IPC_LOCK where the kernel looks for it: in the first user namespace.
func (x *examination) mayLock() bool {
	if !x.firstUsers() {
		return false
	}
	for line := range strings.Lines(x.file("self/status")) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && caps>>capIPCLock&1 == 1
		}
	}
	return false
}
