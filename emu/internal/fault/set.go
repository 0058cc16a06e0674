//go:build linux

package fault

import (
	"fmt"
	"slices"
)

// Set is the active faults. It is not safe for concurrent use: the fabric's lock guards it.
type Set struct {
	by   [points][]*Spec
	all  []*Spec
	last int
}

// MaxSpecs bounds how many faults may be active, because each operation looks at all of its point.
const MaxSpecs = 256

// Parse returns the set of the given specs.
func Parse(specs []string) (*Set, error) {
	s := new(Set)
	for _, t := range specs {
		if _, err := s.Add(t); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Add activates one more fault.
func (s *Set) Add(text string) (*Spec, error) {
	if len(s.all) >= MaxSpecs {
		return nil, &SpecError{text, "limit", fmt.Errorf("%d faults are active already; clear some", len(s.all))}
	}
	f, err := ParseSpec(text)
	if err != nil {
		return nil, err
	}
	s.last++
	f.ID = s.last
	s.all = append(s.all, f)
	s.by[f.At] = append(s.by[f.At], f)
	return f, nil
}

// Clear removes the fault of that id, or all if it is 0. It returns how many there were.
func (s *Set) Clear(id int) (n int) {
	is := func(f *Spec) bool { return id == 0 || f.ID == id }
	for p := range s.by {
		s.by[p] = slices.DeleteFunc(s.by[p], is)
	}
	n = len(s.all)
	s.all = slices.DeleteFunc(s.all, is)
	return n - len(s.all)
}

// List returns the active faults in the order of their activation.
func (s *Set) List() []*Spec { return s.all }

// Active reports whether any fault may happen at a point.
func (s *Set) Active(p Point) bool { return len(s.by[p]) > 0 }

// At counts an operation and returns the fault that befalls it: the first one that is due. act, if not nil, is called
// for each due fault of a port or a device, which befall no single operation and so leave room for another.
func (s *Set) At(p Point, op *Op, act func(*Spec)) (hit *Spec) {
	for _, f := range s.by[p] {
		switch {
		case hit != nil && !f.Kind.Machine():
			if f.selects(op) {
				f.Seen++
			}
		case !f.due(op):
		case !f.Kind.Machine():
			hit = f
		case act != nil:
			act(f)
		}
	}
	return hit
}
