// Package fifo has a first-in, first-out queue that reuses its memory.
package fifo

import "slices"

// Queue is a first-in, first-out queue. The zero value is empty. It has no lock.
type Queue[T any] struct {
	list []T
	head int
}

// Len returns how many elements there are.
func (q *Queue[T]) Len() int { return len(q.list) - q.head }

// First returns the element that Pop would return. The queue must not be empty. The pointer is valid until the queue
// changes.
func (q *Queue[T]) First() *T { return &q.list[q.head] }

// Last returns the element that was pushed last, as First does.
func (q *Queue[T]) Last() *T { return &q.list[len(q.list)-1] }

// At returns the element that Pop would return after i others, as First does.
func (q *Queue[T]) At(i int) *T { return &q.list[q.head+i] }

// Reserve makes memory for queues of up to n elements: Push allocates none then.
func (q *Queue[T]) Reserve(n int) { q.list = slices.Grow(q.list, 2*n) }

// Push appends an element. It moves those that are there only if Pop has freed at least as much memory as they take, so
// that a long queue does not pay for each element.
func (q *Queue[T]) Push(v T) {
	if len(q.list) == cap(q.list) && q.head > 0 && q.head >= q.Len() {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, v)
}

// Pop removes the first element. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	var zero T
	v := q.list[q.head]
	q.list[q.head] = zero
	q.head++
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return v
}

// PopLast removes the last element. The queue must not be empty.
func (q *Queue[T]) PopLast() T {
	var zero T
	last := len(q.list) - 1
	v := q.list[last]
	q.list[last] = zero
	q.list = q.list[:last]
	if q.head == last {
		q.list, q.head = q.list[:0], 0
	}
	return v
}

// Remove removes the elements that drop reports true for. It calls drop once for each, from the first on.
func (q *Queue[T]) Remove(drop func(T) bool) {
	q.list, q.head = slices.DeleteFunc(q.list[q.head:], drop), 0
}
