package agent

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/nics"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// told hands over the tasks that it gets.
type told chan Task

func (c told) Run(_ context.Context, t Task, listening func(int) error) (Figures, error) {
	c <- t
	return Figures{}, listening(1)
}

// TestNIC: a task has the options of its NIC as it was when the agent introduced itself, and one for a NIC that the
// agent does not have is refused.
func TestNIC(t *testing.T) {
	tasks := make(told, 1)
	looks := 0
	w := &Worker{Hello: Hello{Name: "n", Program: "p", Most: 1, Problem: "none"}, Runner: tasks, Look: func() []NIC {
		looks++
		return []NIC{{Name: "a", Options: []string{"-d", "a"}}, {Name: "b:2", Options: []string{"-d", "b", "-i", "2"},
			Problem: "down"}}
	}}
	here, there := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Attend(t.Context(), there, good, w) }()
	r, err := Accept(t.Context(), here, good)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.CheckNICs(); err != nil || len(r.NICs) != 2 || r.NICs[1].Problem != "down" ||
		r.NICs[1].Options != nil || r.Problem != "" || looks != 1 {
		t.Errorf("%v, %+v, it looked %d times", err, r.Hello, looks)
	}
	if err := r.Admit(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	p := wire.Params{Verb: wire.Write, Metric: wire.Bandwidth, Size: 64, Iters: 5, QPs: 1, Silence: 7 * time.Second}
	s, err := r.Serve(t.Context(), "b:2", p)
	if err != nil {
		t.Fatal(err)
	}
	task := <-tasks
	if err := s.Close(time.Hour); err != nil {
		t.Error(err)
	}
	if words := strings.Join(task.Words(), " "); task.NIC != "b:2" || !strings.Contains(words, "-d b -i 2") ||
		!strings.Contains(words, "--timeout 7s") {
		t.Errorf("%+v, %s", task, words)
	}
	for _, name := range []string{"c", "", "b", "-d", strings.Repeat("x", 1000)} {
		if _, err := r.Serve(t.Context(), name, p); err == nil || !strings.Contains(err.Error(), "there are: a, b:2") {
			t.Errorf("%.10q: %v", name, err)
		}
	}
	const unknown = `no NIC "c" here; there are: ` // it was made without any
	if _, err := w.options("c"); err == nil || err.Error() != unknown {
		t.Errorf("%v, want %s", err, unknown)
	}
	r.Refuse("")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestHave: an agent has a problem itself if none of its NICs can run tests.
func TestHave(t *testing.T) {
	for _, tt := range []struct {
		problems []string
		want     string
	}{{nil, ""}, {[]string{""}, ""}, {[]string{"x"}, "x"}, {[]string{"x", ""}, ""}, {[]string{"x", "y"}, "x"}} {
		h := Hello{Problem: "before"}
		var list []NIC
		for _, p := range tt.problems {
			list = append(list, NIC{Problem: p})
		}
		if h.Have(list); h.Problem != tt.want || !slices.EqualFunc(h.NICs, list, func(a, b NIC) bool {
			return a.Problem == b.Problem
		}) {
			t.Errorf("%q: %+v", tt.problems, h)
		}
	}
}

// TestHelloBounded: of lists that are longer than a host's, no more is decoded than shows that.
func TestHelloBounded(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"nics":null}`: true, `{"nics":[]}`: true, `{"nics":[{"name":"a"}],"addrs":["10.0.0.1/8"]}`: true,
		`{"nics":[{}` + strings.Repeat(",{}", nics.Most) + `]}`: true,
		`{"addrs":[""` + strings.Repeat(`,""`, 1<<18) + `]}`:    true, `{"nics":[0]}`: false, `{"nics":"x"}`: false,
	} {
		var h Hello
		err := json.Unmarshal([]byte(text), &h)
		if (err == nil) != ok || len(h.Addrs) > MostAddresses || len(h.NICs) > nics.Most+1 {
			t.Errorf("%.60s: %v, %d addresses, %d NICs", text, err, len(h.Addrs), len(h.NICs))
		}
	}
}
