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
func (l *list[T]) push(e *elem[T]) { l.insert(e, l.last, nil) }

// pushFirst adds e in front, unless it is in the list.
func (l *list[T]) pushFirst(e *elem[T]) { l.insert(e, nil, l.first) }

// insert adds e between two neighbours, unless it is in the list.
func (l *list[T]) insert(e, prev, next *elem[T]) {
	if e.in {
		return
	}
	e.in = true
	l.join(prev, e)
	l.join(e, next)
	l.n++
}

// remove takes e out, if it is in the list.
func (l *list[T]) remove(e *elem[T]) {
	if !e.in {
		return
	}
	l.join(e.prev, e.next)
	e.in, e.next, e.prev = false, nil, nil
	l.n--
}

// join makes a and b neighbours. nil is the end of the list.
func (l *list[T]) join(a, b *elem[T]) {
	if a == nil {
		l.first = b
	} else {
		a.next = b
	}
	if b == nil {
		l.last = a
	} else {
		b.prev = a
	}
}

// Sender is one that takes blocks to send from: a connection. Wake is called when there may be a block for it, with the
// lock of the set. Its other fields belong to the set.
type Sender struct {
	Wake func()

	place elem[*Sender]
	woken bool
	small *Block // see Equip
	spent bool   // it is under way
}
