package native

// groups are the rows by package and reason.
var groups = []group{
	{"ibv", needsOps, `TestRXE_NumbersOfTheTable/Ops TestRXE_TrueSizes/Ops TestRXE_RegistersOfTheirOwn TestRXE_Faults
		TestRXE_ServiceLevel/Ops.* TestRXE_ResizeSRQ/Ops TestRXE_MWOldLibrary TestRXE_TagMatchingRefused
		TestRXE_Signatures TestRXE_SameWords TestRXE_WallClockUpdate/Ops`},
	{"ibv", needsC, `TestRXE_Adopt`},
	{"ibv", needsLibrary, `TestRXE_MWUnknownProvider`},

	{"mlx5dv", needsOps, `TestRXECreateCQ/.*Ops TestRXEFaults TestRXEMkeyRoom TestRXEMkeyBytes TestRXEViewRefused/Ops
		TestRXEZZDeviceRemoved/Ops TestRXERawBytes`},
	{"mlx5dv", needsMLX5, `TestRXEDirectRules/dump`},

	{"cmd/perf/internal/command", needsEFA, `TestRXE_Mismatch/device_limits`},
}
