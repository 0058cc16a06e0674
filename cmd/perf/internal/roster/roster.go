package roster

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/lists"
)

// Roster has the hosts of a mesh. The zero value expects nobody; see New.
type Roster struct {
	given []string // names that are expected, as the launcher's place has them; may be empty
	list  []string // the same, or of the agents' launcher
	of    int      // how many are expected; 0: nobody knows
	fixed bool     // of was given by the user
	job   string   // to which all belong; may be empty
	hosts []entry
	heard bool // one with a rank is among them
}

type entry struct {
	name string // as the mesh calls it
	own  string // as the host calls itself
	rank int    // -1: none
	of   int    // as it says; 0: it does not
}

// RunError is of an agent whose launcher has another number of processes than that of the others.
type RunError struct{ Rank, Of, Others int }

// Error returns one line.
func (e *RunError) Error() string {
	return fmt.Sprintf("it is rank %d of %d, the others are of %d: it belongs to another run", e.Rank, e.Of, e.Others)
}

// New returns a roster for the hosts of a launcher's list and number, as far as they are known. Expect is the number
// that the user gives, or 0.
func New(launcher Place, expect int) *Roster {
	given, _ := ExpandNodes(launcher.Nodes)
	return &Roster{of: cmp.Or(expect, launcher.Of), fixed: expect > 0, job: launcher.Job, given: given, list: given}
}

// Come enters a host that calls itself name, and returns what the mesh calls it. What the others said may speak against
// its place; a *RunError may be wrong, if more say the same later.
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
	if p.Of == 1 { // each has a launcher of its own
		p.Rank, p.Of = -1, 0
	}
	of := r.of
	if p.Rank >= 0 {
		of = cmp.Or(of, p.Of)
		if p.Of > 0 && !r.fixed && p.Of != of {
			return "", &RunError{p.Rank, p.Of, of}
		}
		if most := max(of, p.Of); most > 0 && p.Rank >= most {
			return "", fmt.Errorf("it is rank %d, and there are %d", p.Rank, most)
		}
		for _, h := range r.hosts {
			if h.rank == p.Rank {
				return "", fmt.Errorf("it is rank %d, as is %s", p.Rank, h.name)
			}
		}
		if !r.heard { // all have the same list, which may be long
			if list, err := ExpandNodes(p.Nodes); err == nil {
				r.list = list // of the launcher, which may use a part of the allocation
			}
		}
		r.heard, r.of = true, of
	}
	e := entry{name: name, own: name, rank: p.Rank, of: p.Of}
	for n := 2; r.called(e.name); n++ {
		if e.name = fmt.Sprintf("%s#%d", name, n); n == 2 && p.Rank >= 0 {
			e.name = fmt.Sprintf("%s#%d", name, p.Rank)
		}
	}
	r.hosts = append(r.hosts, e)
	return e.name, nil
}

// Say returns how many of those that came say that there are of.
func (r *Roster) Say(of int) int {
	return lists.Count(r.hosts, func(h *entry) bool { return h.of == of })
}

// Overrule makes of the number that holds, and returns the names of the hosts that said otherwise, which it forgets.
func (r *Roster) Overrule(of int) (names []string) {
	r.hosts = slices.DeleteFunc(r.hosts, func(h entry) bool {
		if h.of == of || h.of == 0 {
			return false
		}
		names = append(names, h.name)
		return true
	})
	r.of, r.list, r.heard = of, r.given, false
	return names
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
func (r *Roster) Complete() bool { return r.Expected() > 0 && r.came() >= r.Expected() }

// came returns how many of those that are expected came. Where a launcher's number is known from its agents, others do
// not count.
func (r *Roster) came() int {
	return lists.Count(r.hosts, func(h *entry) bool { return !r.heard || r.fixed || h.rank >= 0 })
}

// Missing names the hosts that did not come: by the list if it names all that came, otherwise by their ranks.
func (r *Roster) Missing() []string {
	if r.Complete() {
		return nil
	}
	if list, ok := r.unlisted(); ok {
		return list
	}
	return lists.Map(r.absent(), func(rank int) string { return fmt.Sprintf("rank %d", rank) })
}

// absent returns the ranks that nobody has, if all that came have one.
func (r *Roster) absent() (list []int) {
	there := map[int]bool{}
	for _, h := range r.hosts {
		if h.rank < 0 {
			return nil
		}
		there[h.rank] = true
	}
	for n := range min(r.Expected(), Most) {
		if len(r.hosts) > 0 && !there[n] {
			list = append(list, n)
		}
	}
	return list
}

// unlisted returns whom the list has and who did not come, if all that came are in it, as many on each node.
func (r *Roster) unlisted() (names []string, ok bool) {
	if len(r.list) == 0 || r.Expected()%len(r.list) != 0 {
		return nil, false
	}
	each := r.Expected() / len(r.list)
	left := map[string]int{} // on each node
	for _, n := range r.list {
		left[short(n)] += each
	}
	for _, h := range r.hosts {
		if left[short(h.own)]--; left[short(h.own)] < 0 {
			return nil, false
		}
	}
	taken, came := map[string]bool{}, map[string]bool{}
	for _, h := range r.hosts {
		taken[h.name], came[short(h.own)] = true, true
	}
	ranks := r.absent()
	for _, n := range r.list {
		on := left[short(n)]
		left[short(n)] = 0
		for k := range on {
			name := n
			if (k > 0 || came[short(n)]) && on == len(ranks) { // all that are missing are of this node
				name = fmt.Sprintf("%s#%d", n, ranks[k])
			}
			for k := 2; taken[name] || name == n && came[short(n)]; k++ {
				name = fmt.Sprintf("%s#%d", n, k)
			}
			taken[name] = true
			names = append(names, name)
		}
	}
	return names, true
}

// Node returns the node of a host: several hosts of a mesh may be agents on one node.
func Node(host string) string {
	node, number, ok := strings.Cut(host, "#")
	if _, err := strconv.ParseUint(number, 10, 31); !ok || err != nil {
		return host
	}
	return node
}

// Apart returns a name for one that calls itself as a host of the mesh does, and is another one.
func (r *Roster) Apart(name string, taken func(string) bool) string {
	apart := name
	for n := 2; r.called(apart) || taken(apart); n++ {
		apart = fmt.Sprintf("%s#%d", name, n)
	}
	return apart
}

// Short returns how many hosts did not come. Missing may name fewer.
func (r *Roster) Short() int { return max(0, r.Expected()-r.came()) }

// Unknown describes hosts that did not come and that Missing does not name.
func (r *Roster) Unknown() error {
	if n := r.Short() - len(r.Missing()); n > 0 {
		return fmt.Errorf("%d of %d hosts did not come; those that came are %s", n, r.Expected(), r.present())
	}
	return nil
}

// Awaited describes how many hosts have come, and the hosts that the mesh waits for.
func (r *Roster) Awaited() string {
	if r.Expected() == 0 {
		return fmt.Sprintf("%d hosts have come, nobody has said of how many: %s", len(r.hosts), cut(r.present()))
	}
	text := fmt.Sprintf("%d of %d hosts have come", r.came(), r.Expected())
	names := r.Missing()
	if len(names) > 0 && len(names) == r.Short() {
		return text + "; awaited: " + cut(Fold(names))
	}
	return text + lists.When(len(r.hosts) > 0, ": "+cut(r.present()))
}

// cut shortens a list of names.
func cut(list string) string {
	const most = 300
	if len(list) > most {
		return list[:most] + "..."
	}
	return list
}

func (r *Roster) present() string {
	if len(r.hosts) == 0 {
		return "none"
	}
	return Fold(lists.Map(r.hosts, func(h entry) string { return h.name }))
}

// short returns a name without its domain, unless it is an address.
func short(name string) string {
	host, _, _ := strings.Cut(name, ".")
	if host == "" || host[0] >= '0' && host[0] <= '9' {
		return name
	}
	return host
}
