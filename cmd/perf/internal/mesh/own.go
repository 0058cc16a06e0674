package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// spareFiles is how many open files a coordinator needs without any host: for its output, its listener, its launcher
// and the runtime.
const spareFiles = 24

// FilesError is a limit of open files that is too low for the hosts of a mesh.
type FilesError struct {
	Hosts, Need int
	Limit       uint64 // the hard one: the soft limit has been raised to it
}

// Error returns one line.
func (e *FilesError) Error() string {
	return fmt.Sprintf("a mesh of %d hosts needs %d open files (descriptors), the hard limit is %d: raise it "+
		"(ulimit -Hn %d as root, LimitNOFILE=%d in a unit of systemd, nofile in /etc/security/limits.conf), or "+
		"measure fewer hosts",
		e.Hosts, e.Need, e.Limit, e.Need, e.Need)
}

// CheckFiles returns a *FilesError if this process may not open a connection to each host. Where nobody knows the
// number of hosts, it returns nil. Package os has raised the soft limit to the hard one.
func (c *Config) CheckFiles() error {
	hosts := max(len(c.Hosts), roster.New(c.Launcher, c.Expect).Expected())
	if limit := mostFiles(); uint64(hosts+spareFiles) > limit && hosts > 0 {
		return &FilesError{hosts, hosts + spareFiles, limit}
	}
	return nil
}

// mostStrange returns how many connections may be there that have not proved themselves: they leave room for the hosts.
func (m *coordinator) mostStrange() int {
	room := mostFiles() - min(mostFiles(), uint64(spareFiles+m.roster.Expected()))
	if m.roster.Expected() == 0 {
		room /= 2
	}
	return int(max(1, min(room, mostStrange)))
}

// ownErrors are those of a coordinator that has nothing left, or no network: they say nothing of the host that it
// wanted to reach.
var ownErrors = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL,
	syscall.EADDRINUSE, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.EACCES, syscall.EPERM, syscall.EAFNOSUPPORT,
	syscall.EPROTONOSUPPORT}

// isOwn reports whether an error is one of the coordinator itself, or of its name server.
func isOwn(err error) bool {
	dns := (*net.DNSError)(nil)
	return slices.ContainsFunc(ownErrors, func(own error) bool { return errors.Is(err, own) }) ||
		errors.As(err, &dns) && !dns.IsNotFound
}

// ownError is a failure of the coordinator.
type ownError struct{ err error }

func (e *ownError) Error() string {
	return fmt.Sprintf("rdmaperf mesh itself failed: %v", e.err) + lists.When(errors.Is(e.err, syscall.EMFILE),
		fmt.Sprintf("; its limit of open files is %d (ulimit -n)", mostFiles()))
}

func (e *ownError) Unwrap() error { return e.err }

// cutOff returns when the first host was lost, if all were at about the same time and without a word: then it is this
// process that lost them.
func (m *coordinator) cutOff() time.Time {
	var at []time.Time
	for _, h := range m.hosts {
		if h.agent == nil {
			continue
		}
		if h.ctx.Err() == nil || h.lostAt.IsZero() ||
			!errors.Is(context.Cause(h.ctx), agent.ErrSilent) && !isOwn(context.Cause(h.ctx)) {
			return time.Time{}
		}
		at = append(at, h.lostAt)
	}
	slices.SortFunc(at, time.Time.Compare)
	if len(at) < 2 || at[len(at)-1].Sub(at[0]) > 3*m.Beat {
		return time.Time{}
	}
	return at[0]
}
