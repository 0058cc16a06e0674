package deadline

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadline moves deadlines while somebody waits, to the nanosecond.
func TestDeadline(t *testing.T) {
	const never = -1
	type move struct{ at, to time.Duration } // to is from the beginning; never removes the deadline
	for _, c := range []struct {
		name  string
		moves []move
		ends  time.Duration
	}{
		{"none", nil, never},
		{"once", []move{{0, time.Second}}, time.Second},
		{"set while somebody waits", []move{{time.Hour, 2 * time.Hour}}, 2 * time.Hour},
		{"later", []move{{0, time.Second}, {time.Second - 1, time.Minute}}, time.Minute},
		{"earlier", []move{{0, time.Minute}, {time.Second, 2 * time.Second}}, 2 * time.Second},
		{"to now", []move{{0, time.Minute}, {time.Second, time.Second}}, time.Second},
		{"into the past", []move{{0, time.Minute}, {time.Second, 1}}, time.Second},
		{"in the past from the beginning", []move{{0, -time.Hour}}, 0},
		{"removed", []move{{0, time.Second}, {time.Second - 1, never}}, never},
		{"removed and set again", []move{{0, time.Second}, {1, never}, {time.Hour, time.Hour + 1}}, time.Hour + 1},
		{"moved after it was past", []move{{0, time.Second}, {time.Minute, time.Hour}}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var d Deadline
				began, ended := time.Now(), time.Duration(never)
				stop := make(chan struct{})
				go func() {
					select {
					case <-d.Past():
						ended = time.Since(began)
					case <-stop:
					}
				}()
				synctest.Wait()
				for _, m := range c.moves {
					time.Sleep(m.at - time.Since(began))
					to := began.Add(m.to)
					if m.to == never {
						to = time.Time{}
					}
					d.Set(to)
					if want := m.to != never && m.to <= m.at; IsClosed(d.Past()) != want {
						t.Errorf("set at %v to %v: past is %v", m.at, m.to, !want)
					}
				}
				time.Sleep(24 * time.Hour)
				close(stop)
				synctest.Wait()
				if ended != c.ends {
					t.Errorf("a wait ended after %v, want %v", ended, c.ends)
				}
				d.Set(time.Time{})
				if IsClosed(d.Past()) {
					t.Error("no deadline is past")
				}
			})
		})
	}
}

// TestDeadlineMovedInTime moves a deadline at the moment at which it comes: whatever was first, the new one holds.
func TestDeadlineMovedInTime(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			var d Deadline
			d.Set(time.Now().Add(time.Second))
			time.Sleep(time.Second)
			d.Set(time.Now().Add(time.Hour))
			p := d.Past()
			time.Sleep(time.Hour - 1)
			synctest.Wait()
			if IsClosed(p) {
				t.Fatal("a deadline of an hour is past before")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if !IsClosed(p) {
				t.Fatal("a deadline of an hour is not past after it")
			}
		})
	}
}

// TestDeadlineStop stops deadlines of each state: none is past afterwards, and nothing runs later.
func TestDeadlineStop(t *testing.T) {
	for _, to := range []time.Duration{0, -time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var d Deadline
			if to != 0 {
				d.Set(time.Now().Add(to))
			}
			p := d.Past()
			d.Stop()
			d.Set(time.Now().Add(time.Minute))
			d.Stop()
			if d.timer != nil {
				t.Errorf("set %v ahead: the timer is left", to)
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			if IsClosed(d.Past()) || to >= 0 && IsClosed(p) {
				t.Errorf("set %v ahead: the deadline is past after Stop", to)
			}
		})
	}
}
