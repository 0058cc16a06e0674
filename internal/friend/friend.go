// Package friend holds the key to what packages of this module show each other only: see ibv.Internal.
package friend

// Key opens ibv.Internal. Other modules can neither name its type nor make a value that Allows.
type Key struct{ _ byte } // not of size 0, whose addresses may be equal

// Mine is this module's key.
var Mine = new(Key)

// Allows reports whether k is this module's key.
func (k *Key) Allows() bool { return k != nil && k == Mine }
