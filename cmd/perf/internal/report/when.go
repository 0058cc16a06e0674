package report

// when returns a value under a condition, else none, which an object leaves out.
func when[T any](is bool, value T) (none T) {
	if is {
		return value
	}
	return none
}

// text returns that of an error, "" of none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
