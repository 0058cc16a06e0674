package progress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/internal/testutil/steps"
)

type (
	bools = [modelWaiters]bool
	posts = [modelWaiters]uint8
	whats = [modelWaiters]what
)

var (
	all   = bools{true, true, true}
	first = bools{true}
)

// TestModel explores what a few goroutines can do. With PUREVERBS_FULL there are more of them.
func TestModel(t *testing.T) {
	total, start := 0, time.Now()
	for _, tt := range []struct {
		name string
		full bool
		run  modelRun
	}{
		{"a dialog", false, modelRun{posts: posts{2}, spins: all, expires: all}},
		{"one reads", false, modelRun{posts: posts{3}, leads: true, expires: all}},
		{"one reads and polls", false, modelRun{posts: posts{2}, leads: true, spins: all, expires: all, eager: true}},
		{"one reads until its deadline, which moves", false, modelRun{posts: posts{2}, leads: true, late: all}},
		{"a dialog and a sleeper", false, modelRun{posts: posts{1, 1}, spins: first}},
		{"two", false, modelRun{posts: posts{1, 1}, spins: bools{false, true}, leads: true}},
		{"one next to Wait", false, modelRun{posts: posts{1, 1}, leads: true, does: whats{receives, waits},
			expires: bools{false, true}}},
		{"one next to Meanwhile", false, modelRun{posts: posts{1, 1}, leads: true, does: whats{receives, meantime}}},
		{"CatchUp", false, modelRun{posts: posts{1}, spins: all, leads: true, does: whats{2: catches}}},
		{"CatchUp, and the engine ends", false, modelRun{posts: posts{1}, does: whats{2: catches}, stops: true}},
		{"the source fails", false, modelRun{posts: posts{1}, spins: all, leads: true, breaks: true}},
		{"the engine ends", false, modelRun{posts: posts{1}, spins: all, leads: true, stops: true}},

		{"a program that polls", false, modelRun{manual: true, posts: posts{1}, does: whats{receives, catches, polls},
			expires: all}},

		{"a longer dialog", true, modelRun{posts: posts{3}, spins: all, expires: all}},
		{"a longer dialog and a sleeper", true, modelRun{posts: posts{2, 1}, spins: first}},
		{"two that do all", true, modelRun{posts: posts{1, 1}, spins: all, leads: true}},
		{"two until a context ends", true, modelRun{posts: posts{1, 1}, spins: all, leads: true, expires: all}},
		{"two, twice", true, modelRun{posts: posts{2, 1}, leads: true, spins: all}},
		{"three sleep", true, modelRun{posts: posts{1, 1, 1}}},
		{"three sleep until a context ends", true, modelRun{posts: posts{1, 1, 1}, expires: first}},
		{"three", true, modelRun{posts: posts{1, 1, 1}, leads: true, spins: bools{false, true}}},
		{"CatchUp after CatchUp", true, modelRun{posts: posts{1}, spins: all, does: whats{1: catches, 2: catches}}},
		{"CatchUp next to two messages", true, modelRun{posts: posts{2}, spins: all, leads: true,
			does: whats{2: catches}}},
		{"CatchUp, and the engine of one that reads ends", true, modelRun{posts: posts{1}, leads: true,
			does: whats{2: catches}, stops: true}},
		{"CatchUp, and the source fails", true, modelRun{posts: posts{1}, leads: true, does: whats{2: catches},
			breaks: true}},
		{"the source fails for two", true, modelRun{posts: posts{1, 1}, spins: all, leads: true, breaks: true}},
		{"the source fails next to Wait", true, modelRun{posts: posts{1, 1}, leads: true, does: whats{receives, waits},
			breaks: true}},
		{"the engine ends after a message", true, modelRun{posts: posts{2}, spins: all, leads: true, stops: true}},
		{"the engine of two ends", true, modelRun{posts: posts{1, 1}, spins: all, leads: true, stops: true}},
	} {
		if tt.full && !testutil.Full() {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			began := time.Now()
			o, err := tt.run.explore()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%v, %v", o, time.Since(began).Round(time.Millisecond))
			if o.wrong != "" {
				t.Fail()
			}
			total += o.states
		})
	}
	t.Logf("%d states in %v", total, time.Since(start).Round(time.Millisecond))
}

// small are runs in which most mistakes show, the fastest first.
func small() []modelRun {
	return []modelRun{
		{posts: posts{1}, spins: all, expires: all},
		{posts: posts{1, 1}, leads: true, does: whats{receives, meantime}},
		{posts: posts{1}, spins: all, leads: true, breaks: true},
		{posts: posts{1}, leads: true, breaks: true, deaf: true},
		{posts: posts{1}, does: whats{2: catches}, breaks: true},
		{posts: posts{1}, breaks: true, stops: true},
		{posts: posts{2}, leads: true, expires: all},
		{posts: posts{1, 1}, leads: true, does: whats{receives, waits}, expires: bools{false, true}},
		{posts: posts{1}, spins: all, leads: true, does: whats{2: catches}},
		{manual: true, posts: posts{1}, does: whats{receives, catches, polls}, expires: all},
		{posts: posts{1}, spins: all, leads: true, stops: true},
		{posts: posts{1, 1}, spins: first},
		{posts: posts{1}, does: whats{1: catches, 2: catches}},
		{posts: posts{1, 1}, spins: bools{false, true}, leads: true},
	}
}

// findIn explores runs with mistakes until one of them shows.
func findIn(t *testing.T, runs []modelRun, edits []edit, changes ...steps.Site) (o outcome) {
	t.Helper()
	for _, r := range runs {
		r.edits, r.changes = edits, changes
		var err error
		if o, err = r.explore(); err != nil {
			t.Fatal(err)
		}
		if o.wrong != "" {
			break
		}
	}
	return o
}

// TestModelFinds puts mistakes into the source, those of earlier versions among them, and has the model find each.
func TestModelFinds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edits []edit
		want  string
	}{
		{"a goroutine that reads does nothing for CatchUp, before this test", []edit{{"lead.go", `	if err := p.serve(); err != nil {
		return false, false, err
	}
`, ""}}, "CatchUp waits at progress.go"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := findIn(t, small(), tt.edits)
			t.Logf("after %d states: %s", o.states, o.wrong)
			if !strings.HasPrefix(o.wrong, tt.want) {
				t.Errorf("%q, want %q", o.wrong, tt.want)
			}
		})
	}
}

// harmless are statements that the model can do without, and why.
var harmless = map[string]string{}

// TestModelNeeds leaves each statement out that only has an effect, and has the model find that.
func TestModelNeeds(t *testing.T) {
	var sites []steps.Site
	for _, r := range small() {
		if err := r.compile(); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.programs {
			for _, s := range sitesOf(p) {
				if s.Change == steps.Remove && slices.Contains(modelFiles, file(s)) && !slices.Contains(sites, s) {
					sites = append(sites, s)
				}
			}
		}
	}
	slices.SortFunc(sites, func(a, b steps.Site) int { return strings.Compare(a.Where, b.Where) })
	for i, r := range small() {
		start := time.Now()
		o, err := r.explore()
		fmt.Println(i, o, err, time.Since(start))
	}
	for _, s := range sites {
		name := file(s) + " " + s.String()
		start := time.Now()
		o := findIn(t, small(), nil, s)
		fmt.Println(name, o.states, o.wrong, time.Since(start))
	}
}

func file(s steps.Site) string {
	name, _, _ := strings.Cut(s.Where, ":")
	return name
}

func sitesOf(p *steps.Program[world]) []steps.Site {
	if p == nil {
		return nil
	}
	return p.Sites
}
