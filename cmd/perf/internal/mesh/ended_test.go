package mesh

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/agent"
)

func TestAllEnded(t *testing.T) {
	absent := LostHost{Host: "c", Kind: Absent, Error: "it did not come"}
	ended := func(name string) LostHost { return LostHost{Host: name, Kind: Lost, Error: errEnded.Error()} }
	silent := LostHost{Host: "b", Kind: Lost, Error: "no heartbeat for 6s"}
	for _, tt := range []struct {
		name string
		lost []LostHost
		all  bool
		left int
	}{
		{"nobody", nil, false, 0},
		{"one absent", []LostHost{absent}, false, 1},
		{"one of two", []LostHost{absent, ended("a")}, false, 2},
		{"both", []LostHost{absent, ended("a"), ended("b")}, true, 1},
		{"one was silent", []LostHost{absent, ended("a"), silent}, false, 3},
	} {
		r := &Result{Hosts: []string{"a", "b", "c"}, LostHosts: tt.lost}
		if all := r.AllEnded(); all != tt.all || len(r.LostHosts) != tt.left {
			t.Errorf("%s: %v, %+v", tt.name, all, r.LostHosts)
		}
	}
}

// TestExplain_Reset: a killed agent that has not read all resets its connection.
func TestExplain_Reset(t *testing.T) {
	reset := fmt.Errorf("%w: %w", agent.ErrLeft, os.NewSyscallError("read", syscall.ECONNRESET))
	if err := explain(reset); err != errEnded {
		t.Error(err)
	}
	said := fmt.Errorf("%w: no memory", agent.ErrLeft)
	if err := explain(said); err == nil || err.Error() != said.Error() {
		t.Error(err)
	}
}
