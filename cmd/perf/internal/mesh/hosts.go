package mesh

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// MostHosts bounds a mesh.
const MostHosts = roster.Most

// Host is where an agent listens.
type Host struct {
	Name string // as it was given
	Addr string
	Port int
}

// ParseHost reads HOST, HOST:PORT, ADDRESS or [ADDRESS]:PORT.
func ParseHost(text string, port int) (Host, error) {
	h := Host{text, text, port}
	if strings.Count(text, ":") == 1 || strings.HasPrefix(text, "[") {
		addr, p, err := net.SplitHostPort(text)
		if err != nil {
			if addr = strings.Trim(text, "[]"); net.ParseIP(addr) == nil {
				return h, fmt.Errorf("host %q: %w", text, err)
			}
			h.Addr = addr
			return h, nil
		}
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return h, fmt.Errorf("host %q: port %q; allowed: 1 to 65535", text, p)
		}
		h.Addr, h.Port = addr, int(n)
	}
	if h.Addr == "" || strings.HasPrefix(h.Addr, "-") || strings.ContainsAny(h.Addr, " \t/,") {
		return h, fmt.Errorf("host %q is neither a name nor an address", text)
	}
	return h, nil
}

// ParseHosts reads a list of hosts without duplicates.
func ParseHosts(names []string, port int) ([]Host, error) {
	if len(names) > MostHosts {
		return nil, fmt.Errorf("%d hosts; allowed: %d", len(names), MostHosts)
	}
	var hosts []Host
	for _, n := range names {
		h, err := ParseHost(strings.TrimSpace(n), port)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(hosts, func(o Host) bool { return o.Addr == h.Addr && o.Port == h.Port }) {
			return nil, fmt.Errorf("host %s is listed twice", h.Name)
		}
		hosts = append(hosts, h)
	}
	if len(hosts) < 2 {
		return nil, fmt.Errorf("%d hosts; a mesh needs at least 2", len(hosts))
	}
	return hosts, nil
}

// mostHostfile bounds a hostfile.
const mostHostfile = 1 << 20

// ReadHostfile returns the first word of each line, as Open MPI, MPICH and Slurm write it. # begins a comment.
func ReadHostfile(r io.Reader) (names []string, err error) {
	all, err := io.ReadAll(io.LimitReader(r, mostHostfile+1))
	if err != nil {
		return nil, err
	}
	if len(all) > mostHostfile {
		return nil, fmt.Errorf("more than %d bytes, which is the limit; remove comments and options of the hosts",
			mostHostfile)
	}
	for line := range strings.Lines(string(all)) {
		text, _, _ := strings.Cut(line, "#")
		if f := strings.Fields(text); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	if names == nil {
		return nil, errors.New("no hosts")
	}
	return names, nil
}
