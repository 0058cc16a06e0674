package report

import (
	"cmp"
	"os"
	"runtime"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/doctor"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// Host is the machine that a run was on.
type Host struct {
	Name   string `json:"name"`
	Kernel string `json:"kernel,omitempty"`
	Arch   string `json:"architecture"`
	CPUs   int    `json:"processors"`
	// Libraries are the versions of libibverbs and the like, by name.
	Libraries map[string]string `json:"libraries,omitempty"`
}

// ThisHost describes this machine.
func ThisHost() *Host {
	h := &Host{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Libraries: doctor.Versions()}
	h.Name, _ = os.Hostname()
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = strings.TrimSpace(string(b))
	}
	return h
}

// role is that of an end that connects, or does not.
func role(connects bool) wire.Role { return cmp.Or(lists.When(connects, wire.Client), wire.Server) }
