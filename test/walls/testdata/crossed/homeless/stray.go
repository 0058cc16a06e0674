package homeless
