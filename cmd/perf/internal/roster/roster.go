package roster

import (
	"fmt"
	"slices"
	"strings"
)

// Roster has the hosts of a mesh. The zero value expects nobody; see New.
type Roster struct {
	list  []string // of names that are expected; may be empty
	of    int      // how many are expected; 0: nobody knows
	fixed bool     // of was given by the user
	job   string   // to which all belong; may be empty
	hosts []entry
}

type entry struct {
	name string // as the mesh calls it
	own  string // as the host calls itself
	rank int    // -1: none
}

// Missing is a host that did not come: its name, or what else is known of it.
type Missing struct {
	Name string
	Rank int // -1: not known
}

// String returns the name, or the rank.
func (m Missing) String() string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprintf("rank %d", m.Rank)
}

// New returns a roster for the hosts of a launcher's list and number, as far as they are known. Expect is the number
// that the user gives, or 0.
func New(launcher Place, expect int) *Roster {
	r := &Roster{of: expect, fixed: expect > 0, job: launcher.Job}
	r.list, _ = ExpandNodes(launcher.Nodes)
	if expect == 0 {
		r.of = launcher.Of
	}
	return r
}

// Come enters a host that calls itself name, and returns what the mesh calls it. What the others said may speak against
// its place.
func (r *Roster) Come(name string, p Place) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if len(r.hosts) >= Most {
		return "", fmt.Errorf("a mesh has at most %d hosts", Most)
	}
	if r.job != "" && p.Job != "" && p.Job != r.job {
		return "", fmt.Errorf("it belongs to job %.40s, this is job %.40s", p.Job, r.job)
	}
	if p.Rank >= 0 {
		if r.of == 0 && p.Of > 0 {
			r.of = p.Of
		}
		if p.Of > 0 && !r.fixed && p.Of != r.of {
			return "", fmt.Errorf("it is rank %d of %d, the others are of %d: it belongs to another run", p.Rank, p.Of,
				r.of)
		}
		if most := max(r.of, p.Of); most > 0 && p.Rank >= most {
			return "", fmt.Errorf("it is rank %d, and there are %d", p.Rank, most)
		}
		for _, h := range r.hosts {
			if h.rank == p.Rank {
				return "", fmt.Errorf("it is rank %d, as is %s", p.Rank, h.name)
			}
		}
		if len(r.hosts) == 0 { // all have the same list, which may be long
			if list, err := ExpandNodes(p.Nodes); err == nil {
				r.list = list // of the launcher, which may use a part of the allocation
			}
		}
	}
	e := entry{name: name, own: name, rank: p.Rank}
	for n := 2; r.called(e.name); n++ {
		if e.name = fmt.Sprintf("%s#%d", name, n); n == 2 && p.Rank >= 0 {
			e.name = fmt.Sprintf("%s#%d", name, p.Rank)
		}
	}
	r.hosts = append(r.hosts, e)
	return e.name, nil
}

// checkName refuses what no host is called.
func checkName(name string) error {
	if name == "" || len(name) > 253 {
		return fmt.Errorf("a host name of %d bytes; allowed: 1 to 253", len(name))
	}
	for _, c := range name {
		if c <= ' ' || c > '~' || strings.ContainsRune(`,[]#"'\<>&|;$`+"`", c) {
			return fmt.Errorf("host name %.60q", name)
		}
	}
	return nil
}

func (r *Roster) called(name string) bool {
	return slices.ContainsFunc(r.hosts, func(h entry) bool { return h.name == name })
}

// Expected returns how many hosts the mesh waits for; 0: nobody knows.
func (r *Roster) Expected() int {
	if r.of > 0 {
		return r.of
	}
	return len(r.list)
}

// Complete reports whether all that are expected have come.
func (r *Roster) Complete() bool { return r.Expected() > 0 && len(r.hosts) >= r.Expected() }

// Missing returns the hosts that did not come: by the list if it names all that came, otherwise by their ranks.
func (r *Roster) Missing() (list []Missing) {
	if r.Complete() {
		return nil
	}
	left := slices.Clone(r.list)
	all := len(r.list) > 0 && (r.of == 0 || r.of == len(r.list))
	for _, h := range r.hosts {
		i := slices.IndexFunc(left, func(n string) bool { return n == h.own || short(n) == short(h.own) })
		if i < 0 {
			all = false
			break
		}
		left = slices.Delete(left, i, i+1)
	}
	if all {
		for _, n := range left {
			list = append(list, Missing{n, -1})
		}
		return list
	}
	there, ranked := map[int]bool{}, true
	for _, h := range r.hosts {
		there[h.rank] = true
		ranked = ranked && h.rank >= 0
	}
	for n := range min(r.Expected(), Most) {
		if ranked && !there[n] && len(r.hosts) > 0 {
			list = append(list, Missing{"", n})
		}
	}
	return list
}

// Short returns how many hosts did not come. Missing may name fewer.
func (r *Roster) Short() int { return max(0, r.Expected()-len(r.hosts)) }

// Unknown describes hosts that did not come and that Missing does not name.
func (r *Roster) Unknown() error {
	if n := r.Short() - len(r.Missing()); n > 0 {
		return fmt.Errorf("%d of %d hosts did not come; those that came are %s", n, r.Expected(), r.present())
	}
	return nil
}

func (r *Roster) present() string {
	var names []string
	for _, h := range r.hosts {
		names = append(names, h.name)
	}
	if len(names) == 0 {
		return "none"
	}
	return Fold(names)
}

// short returns a name without its domain, unless it is an address.
func short(name string) string {
	host, _, _ := strings.Cut(name, ".")
	if host == "" || host[0] >= '0' && host[0] <= '9' {
		return name
	}
	return host
}
