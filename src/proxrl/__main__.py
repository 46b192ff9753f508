from proxrl.cli import main

main()
