#compdef @name@
# Completion of @name@ in zsh, after compinit: eval "$(@name@ --print-completion zsh)"
@function@() {
  local line
  local -a found
  for line in ${(f)"$("${(Q)words[1]}" --complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    case $line in
      :files) _files ;;
      :folders) _files -/ ;;
      *) found+=("$line") ;;
    esac
  done
  if (( $#found )); then compadd -a found; fi
}
compdef @function@ @name@
