package ibv

// friends has the functions on this package's objects that only packages of this module may
// call.
type friends struct{}
