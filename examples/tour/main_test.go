package main

import (
	"testing"

	"github.com/pureverbs/pureverbs/emu/emutest"
)

func TestMain(m *testing.M) { emutest.Run(m, emutest.Strict()) }

func TestTour(t *testing.T) {
	emutest.Need(t)
	main() // a failure ends the test binary
}
