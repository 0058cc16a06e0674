package ibv

import (
	"strings"
	"testing"
)

// TestUnclosed: an object is listed with the place that made it until it is closed.
func TestUnclosed(t *testing.T) {
	d := closing(t, must(Open("fake0"))(t))
	pd := must(d.AllocPD())(t)
	listed := func() (n int) {
		for _, o := range Unclosed() {
			if strings.HasPrefix(o, "pd of fake0") && strings.Contains(o, t.Name()) {
				n++
			}
		}
		return n
	}
	if n := listed(); n != 1 {
		t.Errorf("an open PD is listed %d times: %q", n, Unclosed())
	}
	ok(t, pd.Close())
	if n := listed(); n != 0 {
		t.Errorf("a closed PD is listed %d times", n)
	}
}
