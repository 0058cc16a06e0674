package report

import "slices"

// when returns a value under a condition, else none, which an object leaves out.
func when[T any](is bool, value T) (none T) {
	if is {
		return value
	}
	return none
}

// words returns those that are not empty.
func words(list ...string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return s == "" })
}

// text returns that of an error, "" of none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
