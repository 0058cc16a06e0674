package ibv

import "errors"

// undoing is the list of what is undone if a later step of the creation of an object fails.
type undoing []func() error

func (u *undoing) add(f func() error) { *u = append(*u, f) }

// after undoes all, the last first, and returns err with what failed.
func (u undoing) after(err error) error {
	for i := len(u) - 1; i >= 0; i-- {
		err = errors.Join(err, u[i]())
	}
	return err
}
