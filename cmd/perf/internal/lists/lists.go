// Package lists has what the packages do with lists and values, besides slices and cmp.
package lists

import "iter"

// Each goes over the elements of a list where they are.
func Each[T any](list []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range list {
			if !yield(&list[i]) {
				return
			}
		}
	}
}

// When returns a value under a condition, else the zero value.
func When[T any](is bool, value T) (zero T) {
	if is {
		return value
	}
	return zero
}

// Map returns what of makes of each element.
func Map[T, U any](list []T, of func(T) U) []U {
	var out []U
	for _, e := range list {
		out = append(out, of(e))
	}
	return out
}

// Count returns how many elements are as is says.
func Count[T any](list []T, is func(*T) bool) (n int) {
	for e := range Each(list) {
		if is(e) {
			n++
		}
	}
	return n
}

// Groups returns the elements that have the same key, in the order of the first ones.
func Groups[T any, K comparable](list []T, key func(T) K) [][]T {
	at := map[K]int{}
	var out [][]T
	for _, e := range list {
		k := key(e)
		if _, ok := at[k]; !ok {
			at[k], out = len(out), append(out, nil)
		}
		out[at[k]] = append(out[at[k]], e)
	}
	return out
}
