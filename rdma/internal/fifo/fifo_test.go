package fifo

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQueue compares a queue with a slice.
func TestQueue(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	var q Queue[int]
	var want []int
	for i := range 100_000 {
		switch n := rnd.IntN(16); {
		case n < 7 && len(want) < 40:
			q.Push(i)
			want = append(want, i)
		case n < 12 && len(want) > 0:
			if v := q.Pop(); v != want[0] {
				t.Fatalf("seed %d: Pop returned %d, want %d", seed, v, want[0])
			}
			want = want[1:]
		case n < 14 && len(want) > 0:
			if v := q.PopLast(); v != want[len(want)-1] {
				t.Fatalf("seed %d: PopLast returned %d, want %d", seed, v, want[len(want)-1])
			}
			want = want[:len(want)-1]
		case n == 15:
			odd := func(v int) bool { return v%3 == 0 }
			q.Remove(odd)
			want = slices.DeleteFunc(slices.Clone(want), odd)
		}
		if q.Len() != len(want) {
			t.Fatalf("seed %d: %d elements, want %d", seed, q.Len(), len(want))
		}
		if len(want) > 0 && (*q.First() != want[0] || *q.Last() != want[len(want)-1]) {
			t.Fatalf("seed %d: first %d, last %d, want %d and %d", seed, *q.First(), *q.Last(), want[0],
				want[len(want)-1])
		}
	}
	if cap(q.list) > 128 {
		t.Errorf("room for %d elements, although there were at most 40", cap(q.list))
	}
}

// TestQueueForgets finds no removed element in the queue's memory.
func TestQueueForgets(t *testing.T) {
	var q Queue[*int]
	for range 100 {
		for range 5 {
			q.Push(new(int))
		}
		q.Pop()
		q.PopLast()
		q.Remove(func(*int) bool { return true })
	}
	for i, v := range q.list[:cap(q.list)] {
		if v != nil {
			t.Errorf("element %d is still there", i)
		}
	}
}

func TestQueueAllocs(t *testing.T) {
	var q Queue[int]
	if n := testing.AllocsPerRun(100, func() {
		for i := range 16 {
			q.Push(i)
		}
		for q.Len() > 0 {
			q.Pop()
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestQueueLong moves few elements of a queue that is never empty, and its memory does not grow.
func TestQueueLong(t *testing.T) {
	var q Queue[int]
	const long = 1000
	for i := range long {
		q.Push(i)
	}
	moves := 0
	for range 100 * long {
		q.Pop()
		head := q.head
		q.Push(0)
		if q.head < head {
			moves += q.Len()
		}
	}
	if moves > 200*long || cap(q.list) > 4*long {
		t.Errorf("%d moves of elements, want at most %d; room for %d, want at most %d", moves, 200*long, cap(q.list),
			4*long)
	}
}
