package blocks

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// testRoom counts what happens to a message.
type testRoom struct {
	Room
	n, wakes, late int
}

func newRoom(n int) *testRoom {
	r := &testRoom{n: n}
	r.Wake = func() { r.wakes++ }
	r.Overdue = func() { r.late++ }
	return r
}

func newMessages(most int64) (*Messages, *Budget) {
	b := NewBudget(most, testSlab)
	return NewMessages(b, func() bool { return false }), b
}

func (a *Messages) want(t *testing.T, r *testRoom, admitted bool) {
	t.Helper()
	if got := a.Ask(&r.Room, r.n); got != admitted || a.Admitted(&r.Room) != admitted {
		t.Fatalf("a message of %d bytes is admitted: %v; want %v", r.n, got, admitted)
	}
}

// TestMessages_Order admits messages in the order in which they asked.
func TestMessages_Order(t *testing.T) {
	a, b := newMessages(100)
	one, two, three, small := newRoom(60), newRoom(30), newRoom(60), newRoom(5)
	a.want(t, one, true)
	a.want(t, two, true)
	a.want(t, three, false)
	a.want(t, small, false) // there is room, but it is not its turn
	if b.Used() != 90 {
		t.Errorf("%d bytes are used, want 90", b.Used())
	}
	a.Leave(&two.Room)
	if three.wakes+small.wakes != 0 {
		t.Error("a message was admitted although there is no room")
	}
	a.Leave(&one.Room)
	if three.wakes != 1 || small.wakes != 1 || b.Used() != 65 {
		t.Errorf("woken %d and %d times, %d bytes are used; want both, and 65", three.wakes, small.wakes, b.Used())
	}
	a.Leave(&three.Room)
	a.Leave(&small.Room)
	a.Leave(&small.Room) // it is not there
	if b.Used() != 0 {
		t.Errorf("%d bytes are used at the end", b.Used())
	}
}

// TestMessages_Waiter has a message leave that waits.
func TestMessages_Waiter(t *testing.T) {
	a, b := newMessages(100)
	one, two, three := newRoom(60), newRoom(60), newRoom(30)
	a.want(t, one, true)
	a.want(t, two, false)
	a.want(t, three, false)
	a.Leave(&two.Room)
	if two.wakes != 0 || three.wakes != 1 || b.Used() != 90 {
		t.Errorf("%d bytes are used; want the third admitted", b.Used())
	}
}

// TestMessages_Beyond admits one message for which there is never room. The receives of others go on.
func TestMessages_Beyond(t *testing.T) {
	a, b := newMessages(4 * testSlab)
	if !b.addBlocks(4 * testSlab) {
		t.Fatal("no memory for blocks")
	}
	one, two := newRoom(1<<30), newRoom(1)
	a.want(t, one, true)
	a.want(t, two, false)
	if b.slabs(1) != 4 || b.Used() != 4*testSlab+1<<30 {
		t.Errorf("%d slabs may be there, %d bytes are used", b.slabs(1), b.Used())
	}
	a.Leave(&one.Room)
	if two.wakes != 1 || b.Used() != 4*testSlab+1 {
		t.Errorf("woken %d times, %d bytes are used", two.wakes, b.Used())
	}
	a.Leave(&two.Room)
	if b.Used() != 4*testSlab || b.beyond != 0 {
		t.Errorf("%d bytes are used at the end", b.Used())
	}
}

// TestMessages_Poke admits a message for which buffers made room.
func TestMessages_Poke(t *testing.T) {
	a, b := newMessages(100)
	trimmed := 0
	a.trim = func() bool {
		trimmed++
		return false
	}
	if !b.AddBuffers(50) {
		t.Fatal("no memory for buffers")
	}
	one, two := newRoom(40), newRoom(40)
	a.want(t, one, true)
	a.want(t, two, false)
	if trimmed != 1 {
		t.Errorf("trimmed %d times, want once", trimmed)
	}
	b.DropBuffers(50)
	a.Poke()
	if two.wakes != 1 {
		t.Error("there is room, and the message waits on")
	}
}

// TestMessages_Overdue has messages that never end.
func TestMessages_Overdue(t *testing.T) {
	a, _ := newMessages(100 << 20)
	old, young, waits := newRoom(48<<20), newRoom(48<<20), newRoom(48<<20)
	a.want(t, old, true)
	for range 100 {
		a.Tick()
	}
	a.want(t, young, true)
	if old.late != 0 {
		t.Error("a message is overdue although no other waits")
	}
	a.want(t, waits, false)
	a.Tick()
	if old.late != 1 || young.late != 0 {
		t.Errorf("overdue: %d and %d times; want the old one", old.late, young.late)
	}
	a.Leave(&old.Room)
	next := newRoom(48 << 20)
	a.want(t, next, false)
	for range patience + 48/16 - 1 {
		a.Tick()
	}
	if young.late != 0 {
		t.Errorf("overdue after %d ticks", patience+48/16)
	}
	a.Tick()
	if young.late != 1 || waits.late != 0 {
		t.Errorf("overdue: %d and %d times; want the older one", young.late, waits.late)
	}
}

// TestMessages_Random has messages that begin and end at random. Some never end, and all others are admitted. At most
// one message is beyond the budget, and the time that a message waits is bounded.
func TestMessages_Random(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	a, b := newMessages(1000)
	var all []*testRoom
	age := make(map[*testRoom]int) // ticks that it has waited
	buffers := int64(0)
	for step := range 20_000 {
		switch rnd.IntN(5) {
		case 0:
			if len(all) < 20 {
				r := newRoom(1 + rnd.IntN(700))
				a.Ask(&r.Room, r.n)
				all = append(all, r)
			}
		case 1, 2:
			if len(all) > 0 {
				at := rnd.IntN(len(all))
				if r := all[at]; r.n%3 != 0 && a.Admitted(&r.Room) { // the others never end
					a.Leave(&r.Room)
					all = slices.Delete(all, at, at+1)
				}
			}
		case 3:
			n := int64(rnd.IntN(300))
			if b.AddBuffers(n) {
				b.DropBuffers(buffers)
				buffers = n
			}
		case 4:
			a.Tick()
			all = slices.DeleteFunc(all, func(r *testRoom) bool {
				if r.late == 0 {
					return false
				}
				a.Leave(&r.Room)
				return true
			})
			for _, r := range all {
				if !a.Admitted(&r.Room) {
					age[r]++
				}
				if age[r] > 20*(patience+2) {
					t.Fatalf("seed %d, step %d: a message has waited for %d ticks", seed, step, age[r])
				}
			}
		}
		sum, beyond, admitted := buffers, 0, 0
		for _, r := range all {
			if r.admitted {
				sum += int64(r.n)
				admitted++
				if !r.counted {
					beyond++
				}
			}
		}
		if b.Used() != sum || b.Used()-b.beyond > 1000 || beyond > 1 || len(all) > 0 && admitted == 0 {
			t.Fatalf("seed %d, step %d: %d bytes are used, want %d; %d of %d are admitted, %d beyond", seed, step,
				b.Used(), sum, admitted, len(all), beyond)
		}
	}
}
