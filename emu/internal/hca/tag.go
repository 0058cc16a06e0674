//go:build linux

package hca

import "slices"

// Tag is an entry of a tag list.
type Tag struct {
	Used      bool
	Armed     bool // the program knew of every unexpected message when it added it, or has told so since
	Tag, Mask uint64
	Data      [16]byte // data segment of the buffer
}

// TagRun is the engine's state of a tag list.
type TagRun struct {
	List  []Tag
	Order []uint16 // those that are used, the oldest first
	Next  uint16   // place of the next tag: each one that is added names that of its successor
	HW    uint16   // unexpected messages
	SW    uint16   // of these, how many the program says that it has handled
}

// Match returns the oldest tag that takes a message, or -1.
func (r *TagRun) Match(tag uint64) int {
	for _, i := range r.Order {
		if t := &r.List[i]; t.Armed && (t.Tag^tag)&t.Mask == 0 {
			return int(i)
		}
	}
	return -1
}

// Sync notes how many unexpected messages the program has handled. If that is all, its tags match.
func (r *TagRun) Sync(handled uint16) {
	if r.SW = handled; r.SW == r.HW {
		for _, i := range r.Order {
			r.List[i].Armed = true
		}
	}
}

// Add puts a tag at the next place. It reports whether that is free.
func (r *TagRun) Add(t Tag, next uint16) bool {
	if int(r.Next) >= len(r.List) || int(next) >= len(r.List) || r.List[r.Next].Used {
		return false
	}
	t.Used, t.Armed = true, r.SW == r.HW
	r.List[r.Next] = t
	r.Order = append(r.Order, r.Next)
	r.Next = next
	return true
}

// Remove takes a tag out. It reports whether it was there.
func (r *TagRun) Remove(index uint16) bool {
	if int(index) >= len(r.List) || !r.List[index].Used {
		return false
	}
	r.List[index].Used = false
	r.Order = slices.DeleteFunc(r.Order, func(i uint16) bool { return i == index })
	return true
}
