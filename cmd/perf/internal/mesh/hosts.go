package mesh

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
)

// MostHosts bounds a mesh: it has a test for each pair.
const MostHosts = 4096

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

// ReadHostfile returns the first word of each line, as Open MPI, MPICH and Slurm write it. # begins a comment.
func ReadHostfile(r io.Reader) (names []string, err error) {
	s := bufio.NewScanner(io.LimitReader(r, 1<<20))
	for s.Scan() {
		text, _, _ := strings.Cut(s.Text(), "#")
		if f := strings.Fields(text); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	if s.Err() == nil && names == nil {
		return nil, errors.New("no hosts")
	}
	return names, s.Err()
}

// ExpandNodes expands a node list of Slurm, such as rack1-[01-03,7],login.
func ExpandNodes(list string) (names []string, err error) {
	bad := func(why string) ([]string, error) { return nil, fmt.Errorf("node list %.200q: %s", list, why) }
	depth, start := 0, 0
	var items []string
	for i, r := range list + "," {
		switch {
		case r == '[':
			depth++
		case r == ']':
			depth--
		case r == ',' && depth == 0:
			items = append(items, list[start:i])
			start = i + 1
		}
		if depth < 0 || depth > 1 {
			return bad("brackets do not match")
		}
	}
	if depth != 0 {
		return bad("brackets do not match")
	}
	for _, item := range items {
		some := []string{""}
		for item != "" {
			before, rest, open := strings.Cut(item, "[")
			values := []string{""}
			if open {
				var inside string
				inside, item, _ = strings.Cut(rest, "]")
				if values, err = expandRanges(inside); err != nil {
					return bad(err.Error())
				}
			} else {
				item = ""
			}
			if len(some)*len(values) > MostHosts {
				return bad(fmt.Sprintf("more than %d hosts", MostHosts))
			}
			var next []string
			for _, s := range some {
				for _, v := range values {
					next = append(next, s+before+v)
				}
			}
			some = next
		}
		if some[0] == "" {
			return bad("an empty name")
		}
		if names = append(names, some...); len(names) > MostHosts {
			return bad(fmt.Sprintf("more than %d hosts", MostHosts))
		}
	}
	return names, nil
}

// expandRanges expands 01-03,7 to 01, 02, 03 and 7.
func expandRanges(text string) (values []string, err error) {
	for r := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(r, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 32)
		b, err2 := strconv.ParseUint(to, 10, 32)
		if err1 != nil || err2 != nil || b < a || b-a >= MostHosts || len(values) > MostHosts {
			return nil, fmt.Errorf("range %q", r)
		}
		for n := a; n <= b; n++ {
			values = append(values, fmt.Sprintf("%0*d", len(from), n))
		}
	}
	return values, nil
}
