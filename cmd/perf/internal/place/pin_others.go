//go:build !linux

package place

import "errors"

// Allowed lists nothing: this system does not report it.
func Allowed() ([]int, error) { return nil, nil }

// Pin fails: this system has no such call.
func (p *Place) Pin() (undo func(), err error) {
	if p.Pinned {
		return nil, errors.ErrUnsupported
	}
	return func() {}, nil
}
