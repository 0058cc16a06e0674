// Package walls tests what the packages of this repository may import.
package walls
