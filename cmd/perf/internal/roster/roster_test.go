package roster

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestExpandNodes(t *testing.T) {
	for list, want := range map[string]string{
		"a":                  "a",
		"a,b-c":              "a b-c",
		"n[1-3]":             "n1 n2 n3",
		"n[08-11,7],login":   "n08 n09 n10 n11 n7 login",
		"r[1-2]n[01-02].net": "r1n01.net r1n02.net r2n01.net r2n02.net",
	} {
		if got, err := ExpandNodes(list); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %s", list, got, err, want)
		}
	}
	for _, list := range []string{"", "a,,b", "n[1-3", "n1-3]", "n[[1]]", "n[3-1]", "n[x]", "n[]", "n[1-99999]",
		"n[1-999][1-999]", "n[1-4294967296]", strings.Repeat("n[1-4000],", 1000) + "x"} {
		if got, err := ExpandNodes(list); err == nil {
			t.Errorf("%.30q: %d names", list, len(got))
		}
	}
}

// TestFold writes lists, and reads them again.
func TestFold(t *testing.T) {
	for names, want := range map[string]string{
		"node1 node2 node3 node7": "node[1-3,7]", "node7 node1": "node[1,7]", "n08 n09 n10 n11 x": "n[08-11],x",
		"a": "a", "a1": "a1", "r1n1.net r1n2.net r2n1.net": "r1n[1-2].net,r2n1.net", "10.0.0.1 b": "10.0.0.1,b",
		"n1 n01 n001": "n1,n01,n001", "": "",
	} {
		if got := Fold(strings.Fields(names)); got != want {
			t.Errorf("%s: %s, want %s", names, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var names []string
		for range 1 + r.IntN(40) {
			n := fmt.Sprintf("%s%0*d%s", []string{"n", "gpu-", "r1-n"}[r.IntN(3)], 1+r.IntN(3), r.IntN(120),
				[]string{"", ".example"}[r.IntN(2)])
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		got, err := ExpandNodes(Fold(names))
		slices.Sort(got)
		slices.Sort(names)
		if err != nil || !slices.Equal(got, names) {
			t.Fatalf("%q as %s is %q, %v", names, Fold(names), got, err)
		}
	}
}

func environment(env ...string) func(string) string {
	return func(name string) string {
		for _, e := range env {
			if v, ok := strings.CutPrefix(e, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

func TestFindPlace(t *testing.T) {
	if p, err := FindPlace(environment()); p != Nowhere || err != nil {
		t.Errorf("no environment: %v, %v", p, err)
	}
	for _, tc := range []struct {
		env  []string
		want Place
	}{
		{[]string{"SLURM_PROCID=1", "SLURM_NTASKS=3", "SLURM_JOB_NODELIST=n[1-3]"}, Place{1, 3, "n[1-3]", ""}},
		{[]string{"SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_NODELIST=n[1-3]", "SLURM_STEP_NODELIST=n[1-2]",
			"SLURM_JOB_ID=12", "SLURM_STEP_ID=0"}, Place{0, 2, "n[1-2]", "12.0"}},
		{[]string{"OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=4"}, Place{2, 4, "", ""}},
		{[]string{"PMI_RANK=0", "PMI_SIZE=4"}, Place{0, 4, "", ""}},
		{[]string{"JOB_COMPLETION_INDEX=3"}, Place{3, 0, "", ""}},
		{[]string{"SLURM_PROCID=0"}, Nowhere}, // of a batch script without a number of tasks
	} {
		if p, err := FindPlace(environment(tc.env...)); err != nil || p != tc.want {
			t.Errorf("%q: %v, %v", tc.env, p, err)
		}
	}
	for _, rank := range []string{"4", "-1", "x"} {
		env := []string{"PMI_RANK=" + rank, "PMI_SIZE=4"}
		if p, err := FindPlace(environment(env...)); err == nil {
			t.Errorf("%q: %v", env, p)
		}
	}
}

func TestFindName(t *testing.T) {
	own := func() (string, error) { return "own", nil }
	for env, want := range map[string]string{"": "own", "NODE_NAME=k": "k", "SLURMD_NODENAME=s": "s"} {
		if got := FindName(environment(env), own); got != want {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
	}
}

// TestRoster: who is missing, by what is known of the others.
func TestRoster(t *testing.T) {
	at := func(rank, of int, nodes string) Place { return Place{Rank: rank, Of: of, Nodes: nodes} }
	type guest struct {
		name  string
		place Place
	}
	for name, tc := range map[string]struct {
		launcher Place
		expect   int
		came     []guest
		complete bool
		missing  string
		unknown  int
	}{
		"by list": {at(-1, 0, "n[1-3]"), 0,
			[]guest{{"n1", at(0, 3, "")}, {"n3", at(2, 3, "")}}, false, "[n2]", 0},
		"all":             {at(-1, 0, "n[1-2]"), 0, []guest{{"n1", at(0, 2, "")}, {"n2", at(1, 2, "")}}, true, "[]", 0},
		"by rank":         {Nowhere, 0, []guest{{"a", at(0, 4, "")}, {"b", at(2, 4, "")}}, false, "[rank 1 rank 3]", 0},
		"Job":             {at(0, 0, ""), 3, []guest{{"a", at(0, 0, "")}, {"b", at(2, 0, "")}}, false, "[rank 1]", 0},
		"by number":       {Nowhere, 3, []guest{{"a", Nowhere}, {"b", Nowhere}}, false, "[]", 1},
		"nobody":          {Nowhere, 3, nil, false, "[]", 3},
		"nobody of list":  {at(-1, 0, "n[1-2]"), 0, nil, false, "[n1 n2]", 0},
		"no number":       {Nowhere, 0, []guest{{"a", Nowhere}}, false, "[]", 0},
		"part of the job": {at(-1, 0, "n[1-9]"), 0, []guest{{"n1", at(0, 2, "n[1-2]")}}, false, "[n2]", 0},
		"two on each": {at(-1, 0, "n[1-2]"), 0,
			[]guest{{"n1", at(0, 4, "")}, {"n1", at(1, 4, "")}, {"n2", at(2, 4, "")}}, false, "[n2#3]", 0},
		"two on each, and none of one node": {at(-1, 0, "n[1-3]"), 0, []guest{{"n1", at(0, 6, "")},
			{"n1", at(1, 6, "")}, {"n3", at(4, 6, "")}, {"n3", at(5, 6, "")}}, false, "[n2 n2#3]", 0},
		"two on each, and one of two nodes": {at(-1, 0, "n[1-2]"), 0,
			[]guest{{"n2", at(3, 4, "")}, {"n1", at(1, 4, "")}}, false, "[n1#2 n2#2]", 0},
		"two on each, in turn": {at(-1, 0, "n[1-2]"), 0,
			[]guest{{"n1", at(0, 4, "")}, {"n2", at(1, 4, "")}, {"n2", at(3, 4, "")}}, false, "[n1#2]", 0},
		"two on each, without ranks": {at(-1, 0, "n[1-2].net"), 4, []guest{{"n1", Nowhere}, {"n2", Nowhere},
			{"n2", Nowhere}}, false, "[n1.net#2]", 0},
		"three on one, one on the other": {at(-1, 0, "n[1-2]"), 0, []guest{{"n1", at(0, 4, "")}, {"n1", at(1, 4, "")},
			{"n1", at(2, 4, "")}}, false, "[rank 3]", 0},
		"domains": {at(-1, 0, "n[1-3]"), 0,
			[]guest{{"n1.net", Nowhere}, {"n2.net", Nowhere}}, false, "[n3]", 0},
		"other names": {at(-1, 0, "n[1-3]"), 0,
			[]guest{{"x", at(0, 3, "")}, {"y", at(1, 3, "")}}, false, "[rank 2]", 0},
		"one without a rank": {Nowhere, 0, []guest{{"x", Nowhere}, {"a", at(0, 3, "")}, {"b", at(2, 3, "")}}, false,
			"[]", 1},
		"one alone": {Nowhere, 0, []guest{{"x", at(0, 1, "")}, {"a", at(0, 3, "")}, {"b", at(1, 3, "")},
			{"c", at(2, 3, "")}}, true, "[]", 0},
		"bad list": {at(-1, 0, "n[1-"), 2, []guest{{"a", Nowhere}}, false, "[]", 1},
	} {
		r := New(tc.launcher, tc.expect)
		for _, g := range tc.came {
			if _, err := r.Come(g.name, g.place); err != nil {
				t.Errorf("%s: %s: %v", name, g.name, err)
			}
		}
		unknown := 0
		if err := r.Unknown(); err != nil {
			unknown = r.Short() - len(r.Missing())
		}
		if got := fmt.Sprint(r.Missing()); got != tc.missing || r.Complete() != tc.complete || unknown != tc.unknown {
			t.Errorf("%s: complete %v, missing %s, unknown %d; want %v, %s, %d", name, r.Complete(), got, unknown,
				tc.complete, tc.missing, tc.unknown)
		}
	}
}

// TestRosterRefuses agents that say what cannot be.
func TestRosterRefuses(t *testing.T) {
	r := New(Place{Rank: -1, Job: "7.0"}, 0)
	if name, err := r.Come("a", Place{Rank: 1, Of: 3, Job: "7.0"}); name != "a" || err != nil {
		t.Fatalf("%s, %v", name, err)
	}
	for _, tc := range []struct {
		name  string
		place Place
		want  string
	}{
		{"b", Place{Rank: 1, Of: 3}, "as is a"}, {"b", Place{Rank: 3, Of: 4}, "of another run"[3:]},
		{"b", Place{Rank: 7, Of: 3}, "rank 7, and there are 3"}, {"b", Place{Rank: 1 << 30}, "there are 3"},
		{"", Nowhere, "0 bytes"}, {strings.Repeat("x", 300), Nowhere, "300 bytes"}, {"a b", Nowhere, `"a b"`},
		{"a\n", Nowhere, "host name"}, {"<b>", Nowhere, "host name"},
		{"b", Place{Rank: 2, Of: 3, Job: "8.0"}, "job 8.0"},
	} {
		if _, err := r.Come(tc.name, tc.place); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q %v: %v, want %q", tc.name, tc.place, err, tc.want)
		}
	}
	for _, want := range []string{"a#0", "a#2", "a#3"} {
		p := Place{Rank: 0, Of: 3}
		if want != "a#0" {
			p = Nowhere
		}
		if got, err := r.Come("a", p); got != want || err != nil {
			t.Errorf("another a: %s, %v, want %s", got, err, want)
		}
	}
}

func TestNode(t *testing.T) {
	for host, want := range map[string]string{"n1": "n1", "n1#2": "n1", "n1.net#17": "n1.net", "a#b": "a#b", "#": "#"} {
		if got := Node(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

// TestLongList: the list that each of many hosts has is read once.
func TestLongList(t *testing.T) {
	r, rank := New(Nowhere, 0), -1
	come := func() {
		rank++
		if _, err := r.Come(fmt.Sprint("n", rank), Place{Rank: rank, Of: 9999, Nodes: "n[0-9998]"}); err != nil {
			t.Fatal(err)
		}
	}
	come()
	if n := testing.AllocsPerRun(10, come); n > 100 || r.Expected() != 9999 {
		t.Errorf("%v allocations for each host, want at most 100; %d are expected", n, r.Expected())
	}
}

func TestCompare(t *testing.T) {
	names := []string{"b", "n10.x", "n2", "n1", "n02", "10.0.0.2", "a"}
	slices.SortFunc(names, Compare)
	if got := strings.Join(names, " "); got != "10.0.0.2 a b n1 n02 n2 n10.x" {
		t.Error(got)
	}
}

// TestAwaited: the text lists the hosts that have come, and those that are awaited.
func TestAwaited(t *testing.T) {
	for _, tt := range []struct {
		launcher Place
		expect   int
		came     string
		want     string
	}{
		{Nowhere, 4, "", "0 of 4 hosts have come"},
		{Nowhere, 4, "a b", "2 of 4 hosts have come: a,b"},
		{Nowhere, 0, "a b", "2 hosts have come, nobody has said of how many: a,b"},
		{Place{Rank: -1, Nodes: "n[1-4]"}, 0, "", "0 of 4 hosts have come; awaited: n[1-4]"},
		{Place{Rank: -1, Nodes: "n[1-4]"}, 0, "n2", "1 of 4 hosts have come; awaited: n[1,3-4]"},
	} {
		r := New(tt.launcher, tt.expect)
		for _, name := range strings.Fields(tt.came) {
			if _, err := r.Come(name, Nowhere); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.Awaited(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestExpandNodes_Memory: a list of 200 KB does not expand to more than names can have.
func TestExpandNodes_Memory(t *testing.T) {
	zeros := strings.Repeat("0", 200<<10)
	for _, list := range []string{"n[" + zeros + "-16383]", "n[1-3," + zeros + "]", zeros + "[0-16383]",
		"a[0-99]" + zeros + "[0-99]", strings.Repeat("a", 250) + "[0-9][0-9][0-9][0-9]", zeros} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		names, err := ExpandNodes(list)
		runtime.ReadMemStats(&after)
		bytes := after.TotalAlloc - before.TotalAlloc
		if err == nil && len(names[0]) > 253 || bytes > 16<<20 {
			t.Errorf("%.20q...: %d names, %v, %d bytes", list, len(names), err, bytes)
		}
	}
}
