package mesh

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/schedule"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// number returns that of the host of a NIC such as "n3 b", and the NIC's name.
func number(nic string) (host int, name string) {
	text, name, _ := strings.Cut(nic, " ")
	fmt.Sscanf(text, "n%d", &host)
	return host, name
}

// between returns a function that reports whether two NICs are on different sides, each as the first hosts count.
func between(side func(host int, nic string) int) func(a, b string) bool {
	return func(a, b string) bool { return side(number(a)) != side(number(b)) }
}

// first has the first n hosts on a side of their own.
func first(n int) func(int, string) int {
	return func(host int, _ string) int {
		if host < n {
			return 1
		}
		return 0
	}
}

// TestSplit: NICs that reach each other, and none of the others, are a side of a split fabric and not dark, and only
// pairs between sides have no figures. One that reaches nobody is dark, whatever else is wrong.
func TestSplit(t *testing.T) {
	c := config(t)
	c.Timeout = 30 * time.Second
	for _, tt := range []struct {
		name   string
		hosts  int
		nics   []agent.NIC
		rounds int
		order  schedule.Order
		cut    func(a, b string) bool
		dark   int
		sides  string // sizes
		lost   int    // pairs without figures
	}{
		{"two cut off", 16, nil, 0, "rounds", between(first(2)), 0, "14+2", 2 * 2 * 14},
		{"four", 16, nil, 0, "rounds", between(first(4)), 0, "12+4", 2 * 4 * 12},
		{"half", 16, nil, 0, "rounds", between(first(8)), 0, "8+8", 2 * 8 * 8},
		{"half of an odd number", 17, nil, 0, "rounds", between(first(8)), 0, "9+8", 2 * 8 * 9},
		{"two and two", 4, nil, 0, "rounds", between(first(2)), 0, "2+2", 2 * 2 * 2},
		{"three sides", 18, nil, 0, "rounds", between(func(h int, _ string) int { return h % 3 }), 0, "6+6+6",
			3 * 2 * 36},
		{"one of two rails", 12, cards("a", "b"), 0, "rounds", between(func(h int, nic string) int {
			if nic == "b" {
				return h % 2
			}
			return 0
		}), 0, "6+6", 2 * 6 * 6},
		{"and a dark one", 16, nil, 0, "rounds", between(func(h int, _ string) int {
			return []int{5: 2, 15: 0}[h] + h/5%2
		}), 1, "10+5", 2*10*5 + 2*15},
		{"of few pairs", 40, nil, 4, "rounds", between(first(10)), 0, "30+10", -1},
		{"of fewer pairs", 40, nil, 2, "rounds", between(first(10)), 0, "30+10", -1},
		{"of few pairs, a dark one", 40, nil, 2, "rounds", between(first(1)), 1, "", -1},
		{"bisection", 16, nil, 0, "bisection", between(first(5)), 0, "11+5", -1},
		{"one at a time", 9, nil, 0, "single", between(first(3)), 0, "6+3", 2 * 3 * 6},
		// Who reaches one NIC of the others is not dark, nor cut off.
		{"one pair", 16, nil, 0, "rounds", func(a, b string) bool { return a+b == "n3 n5 " || b+a == "n3 n5 " }, 0,
			"", 2},
		{"all but one", 16, nil, 0, "rounds", func(a, b string) bool {
			x, _ := number(a)
			y, _ := number(b)
			return min(x, y) == 0 && max(x, y) != 9
		}, 0, "", 2 * 14},
		{"sides with a bridge", 12, nil, 0, "rounds", func(a, b string) bool {
			x, _ := number(a)
			y, _ := number(b)
			return x != 11 && y != 11 && x%2 != y%2
		}, 0, "", 2 * 6 * 5},
		{"nobody reaches anybody", 6, nil, 0, "rounds", func(a, b string) bool { return true }, 0, "", 30},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := c
				c.Reach, c.Rounds, c.Order = 3*time.Second, tt.rounds, tt.order
				f := newFabric()
				f.cut = tt.cut
				res, _ := f.mesh(t, c, same(tt.hosts, tt.nics))
				if len(res.DarkNICs) != tt.dark {
					t.Errorf("dark: %v, want %d", res.DarkNICs, tt.dark)
				}
				if got := sizes(res); got != tt.sides {
					t.Errorf("sides: %q, want %q", got, tt.sides)
				}
				for _, s := range res.Splits {
					for _, side := range s.Sides {
						for _, n := range side[1:] {
							if tt.cut(side[0].Host+" "+side[0].NIC, n.Host+" "+n.NIC) {
								t.Errorf("%v and %v are on one side", side[0], n)
							}
						}
					}
				}
				lost := 0
				for i := range res.Pairs {
					p := &res.Pairs[i]
					cut := tt.cut(p.From+" "+p.FromNIC, p.To+" "+p.ToNIC)
					if lost += map[bool]int{true: 1}[p.Error != ""]; cut != (p.Error != "") {
						t.Errorf("%s %s > %s %s: %q; cut: %v", p.From, p.FromNIC, p.To, p.ToNIC, p.Error, cut)
					}
				}
				if tt.lost >= 0 && lost != tt.lost {
					t.Errorf("%d pairs have no figures, want %d", lost, tt.lost)
				}
				good, bad := res.Sort()
				if len(bad) != tt.dark || tt.sides != "" && len(good) > 0 {
					t.Errorf("good: %q, bad: %q", good, bad)
				}
			})
		})
	}
}

// sizes returns those of the sides of a split, such as 14+2.
func sizes(r *Result) string {
	var list []string
	for _, s := range r.Splits {
		for _, side := range s.Sides {
			list = append(list, fmt.Sprint(len(side)))
		}
	}
	return strings.Join(list, "+")
}

// TestSplit_Later: what happens in the middle is told from a NIC that goes dark, by few failures.
func TestSplit_Later(t *testing.T) {
	c := config(t)
	for _, tt := range []struct {
		name  string
		cut   func(a, b string) bool
		reach time.Duration
		dark  int
		sides string
	}{
		{"a quarter", between(first(4)), 3 * time.Second, 0, "12+4"},
		{"half", between(first(8)), 3 * time.Second, 0, "8+8"},
		{"without the first pass", between(first(4)), 0, 0, "12+4"},
		{"one", between(first(1)), 3 * time.Second, 1, ""},
		{"all", func(a, b string) bool { return true }, 3 * time.Second, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, f, pairs := c, newFabric(), 0
				c.Reach, c.Timeout = tt.reach, 30*time.Second
				c.Done = func(list []PairResult) {
					if len(list) > 0 && list[0].Bits > 0 {
						if pairs++; pairs == 20 {
							f.mu.Lock()
							f.cut = tt.cut
							f.mu.Unlock()
						}
					}
				}
				res, spent := f.mesh(t, c, same(16, nil))
				if got := sizes(res); got != tt.sides || len(res.DarkNICs) != tt.dark {
					t.Errorf("sides: %q, want %q; dark: %v, want %d", got, tt.sides, res.DarkNICs, tt.dark)
				}
				late := 0
				for i := range res.Pairs {
					p := &res.Pairs[i]
					if p.Error != "" && !p.Skipped {
						late++
					}
					if p.Error != "" && !tt.cut(p.From+" ", p.To+" ") {
						t.Errorf("%s > %s: %q", p.From, p.To, p.Error)
					}
				}
				if tt.name != "all" && late > 40 {
					t.Errorf("%d pairs failed before it was known", late)
				}
				t.Logf("%d pairs failed before it was known; %v", late, spent)
			})
		})
	}
}

// TestSplit_Large: messages that are lost because they are large do not make anybody dark, and do not have the mesh ask
// for ever who reaches whom.
func TestSplit_Large(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c, f, passes := c, newFabric(), 0
		c.Reach, c.Timeout = 3*time.Second, 30*time.Second
		c.Begun = func(pass string, _, _ int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.cut = nil; pass == "" {
				f.cut = func(a, b string) bool { return true }
			} else {
				passes++
			}
		}
		res, _ := f.mesh(t, c, same(12, nil))
		if len(res.DarkNICs)+len(res.Splits) > 0 || res.Failed() != 132 || passes > mostReaches {
			t.Errorf("dark: %v, split: %v, %d pairs without figures, %d passes", res.DarkNICs, res.Splits, res.Failed(),
				passes)
		}
	})
}

// TestNotMet: tests whose ends do not meet over TCP make no NIC dark. A NIC that meets nobody is named, and left out.
func TestNotMet(t *testing.T) {
	c := config(t)
	synctest.Test(t, func(t *testing.T) {
		c, f := c, newFabric()
		c.Reach, c.Timeout = 3*time.Second, 30*time.Second
		f.fails = func(_ agent.Task, me, peer string) error {
			if strings.HasPrefix(me, "n3") || strings.HasPrefix(peer, "n3") {
				return &wire.ExchangeError{Peer: "n3", Step: "version", Err: wire.ErrBusy}
			}
			return nil
		}
		tests := 0
		c.Done = func(list []PairResult) {
			for i := range list {
				if list[i].Error != "" && !list[i].Skipped {
					tests++
				}
			}
		}
		res, _ := f.mesh(t, c, same(8, cards("a", "b")))
		if good, bad := res.Sort(); len(res.DarkNICs)+len(res.Splits)+len(bad) > 0 || res.Failed() != 28 ||
			len(res.Untested) != 2 || len(good) != 7 || tests > 14 {
			t.Errorf("dark: %v, split: %v, bad: %q, not tested: %v, good: %q, %d tests failed, %d pairs without "+
				"figures, want 28", res.DarkNICs, res.Splits, bad, res.Untested, good, tests, res.Failed())
		}
		var text strings.Builder
		res.Text(&text, false)
		want := "nothing is known of n3 b: its tests cannot begin: exchange with n3, version: the server is busy"
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	})
}

func TestSplit_Text(t *testing.T) {
	r := &Result{Hosts: []string{"n1", "n2", "n3", "n4", "n5"}}
	r.Splits = []Split{{Sides: [][]HostNIC{{{"n1", "b"}, {"n2", "b"}, {"n3", "b"}}, {{"n4", "b"}, {"n5", "b"}}},
		Error: "retry exceeded"}}
	var b strings.Builder
	r.Text(&b, false)
	want := "the fabric is split: no message passes between 3 NICs (n[1-3] b) and 2 NICs (n[4-5] b): retry exceeded\n"
	if !strings.Contains(b.String(), want) || !strings.HasPrefix(r.Absences(), "the fabric is split in 2 sides, ") {
		t.Errorf("no %q in\n%s; %s", want, &b, r.Absences())
	}
	if why := r.unclearHosts(); len(why) != 5 || why["n5"] != "the fabric is split, and it reaches 1 of 4 NICs" {
		t.Errorf("%q", why)
	}
	if good, bad := r.Sort(); len(good)+len(bad) > 0 || slices.Contains(good, "n1") {
		t.Errorf("good %q, bad %q", good, bad)
	}
}
