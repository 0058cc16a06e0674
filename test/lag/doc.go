// Package lag tests QPs on an adapter that is a bond of two ports.
package lag
