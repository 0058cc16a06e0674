package hostfacts

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// capIPCLock is the capability to lock memory without a limit.
const capIPCLock = 14

// NoLimit is a limit that does not exist.
const NoLimit uint64 = math.MaxUint64

// Memlock is how much memory this process may lock, and so register.
type Memlock struct {
	Limit         uint64 `json:"limit_bytes"`    // NoLimit: unlimited
	Capable       bool   `json:"capable"`        // CAP_IPC_LOCK, where the kernel looks for it: no limit applies
	UserNamespace bool   `json:"user_namespace"` // the process is not in the first one: CAP_IPC_LOCK does not count
	Known         bool   `json:"known"`          // Limit could be read
	Text          string `json:"text"`           // of the limit, as the kernel writes it: unlimited, 65536

	Missing []Missing `json:"missing,omitempty"` // what could not be read
}

// Allows reports whether the process may register so many bytes in all. It is true if that is not known.
func (m *Memlock) Allows(bytes uint64) bool { return !m.Known || m.Capable || bytes <= m.Limit }

// Memlock reads the limit of this process: RLIMIT_MEMLOCK, and whether CAP_IPC_LOCK lifts it.
func (h Host) Memlock() *Memlock {
	m := &Memlock{}
	file := func(name string) (text string, ok bool) {
		text, err := h.proc("self", name)
		if err != nil {
			m.Missing = append(m.Missing, miss(h.ProcPath("self", name), err))
		}
		return text, err == nil
	}
	limits, ok := file("limits")
	for line := range strings.Lines(limits) {
		rest, ok := strings.CutPrefix(line, "Max locked memory")
		w := strings.Fields(rest)
		if !ok || len(w) == 0 {
			continue
		}
		n, err := strconv.ParseUint(w[0], 10, 64)
		if w[0] == "unlimited" {
			n, err = NoLimit, nil
		}
		m.Limit, m.Known, m.Text = n, err == nil, w[0]
		break
	}
	if !m.Known && ok {
		m.Missing = append(m.Missing, malformed(h.ProcPath("self", "limits"), m.Text, "a limit of locked memory"))
	}
	users, _ := file("uid_map")
	m.UserNamespace = !slices.Equal(strings.Fields(users), []string{"0", "0", "4294967295"})
	status, _ := file("status")
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			m.Capable = err == nil && caps>>capIPCLock&1 == 1 && !m.UserNamespace
		}
	}
	return m
}

// Cgroup is a limit that a control group of this process, or one above it, has for an RDMA device.
type Cgroup struct {
	Path   string `json:"path"`   // of rdma.max
	Device string `json:"device"` // mlx5_0
	Limit  string `json:"limit"`  // as the kernel writes it: hca_handle=2 hca_object=max
}

// Cgroups returns the limits for RDMA devices of this process, of control groups of version 2, from the process's own
// up. Limits that allow everything are left out.
func (h Host) Cgroups() ([]Cgroup, []Missing) {
	r, out := h.reader(), []Cgroup{}
	text, err := h.proc("self", "cgroup")
	if err != nil {
		r.missing = append(r.missing, miss(h.ProcPath("self", "cgroup"), err))
	}
	for line := range strings.Lines(text) {
		group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !ok {
			continue
		}
		elem := []string{"fs", "cgroup"}
		for e := range strings.SplitSeq(group, "/") {
			if e != "" {
				elem = append(elem, e)
			}
		}
		for ; len(elem) > 2; elem = elem[:len(elem)-1] {
			out = append(out, r.bounds(append(slices.Clone(elem), "rdma.max"))...)
		}
	}
	return out, r.missing
}

// bounds reads the limits of one control group.
func (r *reader) bounds(path []string) (out []Cgroup) {
	for line := range strings.Lines(r.attr(path...)) {
		device, limit, _ := strings.Cut(strings.TrimSpace(line), " ")
		if limit != "" && limit != "hca_handle=max hca_object=max" {
			out = append(out, Cgroup{Path: r.path(path), Device: device, Limit: limit})
		}
	}
	return out
}
