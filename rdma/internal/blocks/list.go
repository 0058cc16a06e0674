package blocks

// list is a list whose elements are part of its values, so that it does not allocate and anything can be removed.
type list[T any] struct {
	first, last *elem[T]
	n           int
}

// elem is the place of a value in a list.
type elem[T any] struct {
	next, prev *elem[T]
	value      T
	in         bool
}

// push adds e at the end, unless it is in the list.
func (l *list[T]) push(e *elem[T]) {
	if e.in {
		return
	}
	e.in, e.prev = true, l.last
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.n++
}

// pushFirst adds e in front, unless it is in the list.
func (l *list[T]) pushFirst(e *elem[T]) {
	if e.in {
		return
	}
	e.in, e.next = true, l.first
	if l.first == nil {
		l.last = e
	} else {
		l.first.prev = e
	}
	l.first = e
	l.n++
}

// remove takes e out, if it is in the list.
func (l *list[T]) remove(e *elem[T]) {
	if !e.in {
		return
	}
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.in, e.next, e.prev = false, nil, nil
	l.n--
}
