package main

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/gotext"
)

func TestUpToDate(t *testing.T) {
	if err := gotext.Stale("..", 2, generate); err != nil {
		t.Error(err)
	}
}
