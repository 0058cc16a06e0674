package rdma

// queue is a first-in, first-out queue.
type queue[T any] struct {
	list []T
	head int
}

func (q *queue[T]) len() int { return len(q.list) - q.head }
func (q *queue[T]) last() *T { return &q.list[len(q.list)-1] }

func (q *queue[T]) push(v T) {
	if len(q.list) == cap(q.list) && q.head > 0 {
		n := copy(q.list, q.list[q.head:])
		clear(q.list[n:])
		q.list, q.head = q.list[:n], 0
	}
	q.list = append(q.list, v)
}

func (q *queue[T]) pop() T {
	var zero T
	v := q.list[q.head]
	q.list[q.head] = zero
	q.head++
	if q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	}
	return v
}

// popLast removes the last.
func (q *queue[T]) popLast() T {
	var zero T
	v := q.list[len(q.list)-1]
	q.list[len(q.list)-1] = zero
	q.list = q.list[:len(q.list)-1]
	return v
}
