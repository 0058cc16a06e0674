package mesh

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/roster"
)

// TestOtherRun: agents of a run with another number of processes are left out, also if one of them comes first; those
// of this run all are measured. One whose launcher started nobody else has no place, and takes none.
func TestOtherRun(t *testing.T) {
	c := config(t)
	type guest struct {
		name     string
		rank, of int
	}
	mine := []guest{{"n0", 0, 4}, {"n1", 1, 4}, {"n2", 2, 4}, {"n3", 3, 4}}
	for _, tt := range []struct {
		name  string
		come  []guest
		hosts string
		left  []string
	}{
		{"first", slices.Concat([]guest{{"x", 0, 2}}, mine), "n0 n1 n2 n3", []string{"left out x"}},
		{"last", slices.Concat(mine[:3], []guest{{"x", 0, 2}}, mine[3:]), "n0 n1 n2 n3", []string{"left out x"}},
		{"two first, one between", slices.Concat([]guest{{"x", 0, 9}, {"y", 1, 9}}, mine[:2], []guest{{"z", 5, 7}},
			mine[2:]), "n0 n1 n2 n3", []string{"left out x", "left out y", "left out z"}},
		{"of a name and rank of mine", slices.Concat([]guest{{"n1", 1, 2}}, mine), "n0 n1 n2 n3",
			[]string{"left out n1#2"}},
		{"a rank that cannot be", slices.Concat([]guest{{"x", 7, 3}}, mine), "n0 n1 n2 n3", []string{"left out x"}},
		{"alone", slices.Concat([]guest{{"x", 0, 1}}, mine), "x n0 n1 n2 n3", nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newParty(t, c)
			for i, g := range tt.come {
				// In all that is longer than an agent waits to be admitted.
				time.AfterFunc(time.Duration(i)*4*time.Second, func() {
					p.join(t.Context(), worker(g.name, roster.Place{Rank: g.rank, Of: g.of}, runner{}), nil)
				})
			}
			res, err := Run(t.Context(), p.c)
			if err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
			var hosts []string
			for _, h := range res.Hosts {
				if !strings.Contains(fmt.Sprint(lostHosts(res)), h+" ") {
					hosts = append(hosts, h)
				}
			}
			slices.SortFunc(hosts, roster.Compare)
			want := strings.Fields(tt.hosts)
			slices.SortFunc(want, roster.Compare)
			if !slices.Equal(hosts, want) || !slices.Equal(lostHosts(res), tt.left) || res.Failed() > 0 ||
				len(res.Pairs) != len(want)*(len(want)-1) {
				t.Errorf("%s: measured %q, %q, %d of %d pairs failed", tt.name, hosts, lostHosts(res), res.Failed(),
					len(res.Pairs))
			}
			p.wg.Wait()
			for name, err := range p.ends {
				if left := !slices.Contains(want, name); left != (err != nil) && name != "n1" ||
					left && !strings.Contains(err.Error(), "it belongs to another run") && tt.name[0] != 'a' {
					t.Errorf("%s: agent %s ends with %v", tt.name, name, err)
				}
			}
		})
	}
}
