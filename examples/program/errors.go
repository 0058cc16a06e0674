package program

import (
	"errors"
	"io"
	"slices"
)

// failure is an error on its way from Check to Catch.
type failure struct{ error }

// Check ends a function that has deferred Catch, if there is an error, as Fatal ends a test: deferred calls run. A
// function that takes one step after the other uses it in place of a return after each.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must is Check with a value.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Catch is deferred. It makes the error of Check that of the function, before those of what was closed meanwhile.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case failure:
		if !errors.Is(*err, r.error) { // Check(err) of the function's own err
			*err = errors.Join(r.error, *err)
		}
	default:
		panic(r)
	}
}

// Close is deferred. It closes an object, and adds the error to that of the function.
func Close(c io.Closer, err *error) { *err = errors.Join(*err, c.Close()) }

// Closers are objects in the order in which they were made.
type Closers []io.Closer

// Keep adds an object, and returns it.
func Keep[T io.Closer](c *Closers, x T) T {
	*c = append(*c, x)
	return x
}

// Close closes the objects, children before parents.
func (c Closers) Close() (err error) {
	for _, x := range slices.Backward(c) {
		err = errors.Join(err, x.Close())
	}
	return err
}
