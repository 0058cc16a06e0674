package link

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
)

// TestLingering ends a connection after its time, unless it has ended before.
func TestLingering(t *testing.T) {
	for _, c := range []struct{ most, want time.Duration }{{time.Minute, time.Minute}, {ibv.None, LingerTime}} {
		synctest.Test(t, func(t *testing.T) {
			stopped := lingering{Most: time.Second}
			stopped.stop()
			stopped.start(func() { t.Error("a connection that has ended lingers") })
			stopped.stop()
			l := lingering{Most: c.most}
			began := time.Now()
			ended := make(chan time.Duration, 1)
			l.start(func() { ended <- time.Since(began) })
			if got := <-ended; got != c.want {
				t.Errorf("Linger %v: ended after %v, want %v", c.most, got, c.want)
			}
		})
	}
}
